package handoff.benches;

interface IEcho {
    byte[] echo(in byte[] bytes);
}
