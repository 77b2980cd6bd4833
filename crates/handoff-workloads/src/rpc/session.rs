//! A server process and its client process, kept between batches.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::host::Address;
use super::role::{AskClient, AskServer, Batch, Client, Role, Server};
use super::service::CALL_LIMIT;
use super::{EngineKind, Parameters};
use crate::error::{Error, Result};
use crate::latency::Fault;
use crate::peer::Peer;
use crate::place::Placement;

/// Most samples of one batch.
pub const MAX_SAMPLES: u32 = 1 << 16;

/// A server process and the client processes that are connected to it. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Processes {
    pub(crate) clients: Vec<Peer>,
    pub(crate) server: Option<Peer>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct ServerOptions {
    /// The threads of its pool; as many as it wants if absent.
    pub(crate) threads: Option<usize>,
    /// What makes some calls late.
    pub(crate) fault: Option<Fault>,
}

impl Processes {
    /// Starts a server and `clients` of it.
    /// [`EngineKind::Local`] has no server: each client serves itself.
    pub(crate) fn start(parameters: &Parameters, serving: ServerOptions, clients: usize) -> Result<Self> {
        let cpus = match parameters.placement {
            Placement::SameCpu(cpu) => (Some(cpu), Some(cpu)),
            Placement::TwoCpus(client, server) => (Some(client), Some(server)),
            Placement::Unpinned => (None, None),
        };
        Self::start_on(parameters, cpus, serving, clients)
    }

    /// [`Processes::start`] with the clients and the server each on a CPU or on none, whatever
    /// [`Parameters::placement`] says.
    pub(crate) fn start_on(
        parameters: &Parameters,
        (client_cpu, server_cpu): (Option<usize>, Option<usize>),
        serving: ServerOptions,
        clients: usize,
    ) -> Result<Self> {
        parameters.check()?;
        let calls = *parameters;
        let (server, address) = match calls.engine {
            EngineKind::Local => (None, None),
            _ => {
                let server = Server { calls, serving, cpu: server_cpu };
                let (peer, address) = Role::Server(server).start::<Address>()?;
                (Some(peer), Some(address))
            }
        };
        let client = || {
            let address = address.clone();
            let client = Client { calls, address, serving, cpu: client_cpu };
            Ok(Role::Client(client).start::<()>()?.0)
        };
        let clients = (0..clients).map(|_| client()).collect::<Result<_>>();
        // All are connected: the server's socket has done its work, and a killed parent leaves no file.
        if let Some(socket) = address.and_then(|address| address.socket) {
            drop(std::fs::remove_file(&socket));
            drop(socket.parent().map(std::fs::remove_dir));
        }
        let clients = clients?;
        Ok(Processes { clients, server })
    }

    fn server_cpu_time(&mut self) -> Result<u64> {
        match &mut self.server {
            Some(server) => server.ask(&AskServer::CpuTime, CALL_LIMIT),
            None => Ok(0),
        }
    }
}

/// Calls of one kind, a batch at a time.
#[derive(Debug)]
pub struct Session {
    processes: Processes,
    payload: usize,
}

/// The calls of one batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Calls {
    /// Nanoseconds of each sample.
    pub(crate) samples: Vec<u64>,
    /// CPU time of both sides together.
    pub(crate) cpu: Duration,
}

impl Session {
    /// Starts a server and a client; they sleep until the first batch.
    pub fn start(parameters: &Parameters) -> Result<Self> {
        Ok(Session {
            processes: Processes::start(parameters, ServerOptions::default(), 1)?,
            payload: parameters.payload,
        })
    }

    /// Runs one batch and gives nanoseconds a call, one value for each sample of `trips` consecutive
    /// calls. Use 1 trip for calls that block; more for those that take well under a microsecond.
    pub fn batch(&mut self, samples: u32, trips: u32) -> Result<Vec<f64>> {
        if samples == 0 || samples > MAX_SAMPLES {
            return Err(Error::parameter("samples", format!("{samples}; a batch has 1 to {MAX_SAMPLES}")));
        }
        if trips == 0 {
            return Err(Error::parameter("trips", "0; a sample has at least one trip"));
        }
        let batch = self.client_batch(samples, trips)?;
        Ok(batch.samples.into_iter().map(|took| took as f64 / f64::from(trips)).collect())
    }

    /// One sample of `trips` calls, with the CPU time of both sides.
    pub(crate) fn calls(&mut self, trips: u32) -> Result<Calls> {
        let before = self.processes.server_cpu_time()?;
        let batch = self.client_batch(1, trips)?;
        let server = self.processes.server_cpu_time()?.saturating_sub(before);
        Ok(Calls { samples: batch.samples, cpu: Duration::from_nanos(batch.cpu + server) })
    }

    /// Changes how many bytes travel each way from the next batch on.
    pub fn set_payload(&mut self, payload: usize) -> Result<()> {
        Parameters { payload, ..Parameters::default() }.check()?;
        self.payload = payload;
        Ok(())
    }

    fn client_batch(&mut self, samples: u32, trips: u32) -> Result<Batch> {
        let asked = AskClient::Echo { payload: self.payload, samples, trips };
        self.processes.clients[0].ask(&asked, CALL_LIMIT)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The function that peers of unit tests run: see [`crate::play_in_test`].
    #[test]
    #[ignore = "a process of another test"]
    fn peer_main() {
        crate::play_if_peer();
    }

    pub(crate) fn play_here() {
        crate::play_in_test("rpc::session::tests::peer_main");
    }

    fn alive(pid: u32) -> bool {
        std::path::Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn calls_are_timed_on_each_engine_and_size() {
        play_here();
        for engine in [EngineKind::Local, EngineKind::Shm] {
            let mut session =
                Session::start(&Parameters { engine, ..Parameters::default() }).expect("started");
            for payload in [0, 1, 8, 4096, 65_536, super::super::MAX_PAYLOAD] {
                session.set_payload(payload).expect("it fits");
                let values =
                    session.batch(5, 3).unwrap_or_else(|error| panic!("{engine} {payload}: {error}"));
                assert_eq!(values.len(), 5);
                assert!(values.iter().all(|&ns| ns > 0.0));
            }
            let calls = session.calls(200).expect("it runs");
            assert!(calls.cpu > Duration::ZERO && calls.samples[0] > 0);
        }
    }

    #[test]
    fn both_processes_end_with_the_session() {
        play_here();
        let session = Session::start(&Parameters::default()).expect("started");
        let server = session.processes.server.as_ref().expect("shm has one").pid();
        let client = session.processes.clients[0].pid();
        assert!(alive(server) && alive(client));
        drop(session);
        assert!(!alive(server) && !alive(client));
    }

    #[test]
    fn a_killed_process_is_an_error_and_not_a_hang() {
        play_here();
        for kill_server in [true, false] {
            let mut session = Session::start(&Parameters::default()).expect("started");
            let server = session.processes.server.as_ref().expect("shm has one").pid();
            let victim = if kill_server { server } else { session.processes.clients[0].pid() };
            let pid = rustix::process::Pid::from_raw(victim.cast_signed()).expect("a pid");
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("ours");
            let error = session.batch(10, 10).expect_err("nobody answers").to_string();
            assert!(error.contains("the client process") || error.contains("died"), "{error}");
        }
    }

    #[test]
    fn impossible_parameters_are_refused() {
        play_here();
        let refused = |parameters: Parameters| Session::start(&parameters).expect_err("refused").to_string();
        assert!(refused(Parameters { payload: 2 << 20, ..Parameters::default() }).contains("1048576"));
        let nowhere = Parameters { placement: Placement::SameCpu(4000), ..Parameters::default() };
        assert!(refused(nowhere).contains("CPU 4000"));
        let mut session =
            Session::start(&Parameters { engine: EngineKind::Local, ..Parameters::default() }).expect("ok");
        assert!(session.batch(0, 1).is_err() && session.batch(1, 0).is_err());
    }
}
