//! Messages over a byte stream: a length of four bytes, then the payload; a sum of one byte back.

use std::io::{self, Read, Write};

/// Answers until the peer hangs up.
pub(crate) fn answer(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut message = Vec::new();
    loop {
        let mut length = [0; 4];
        match from.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > handoff_workloads::transports::MAX_PAYLOAD {
            return Err(io::Error::other("a message that is too long"));
        }
        message.resize(length, 0);
        from.read_exact(&mut message)?;
        to.write_all(&[crate::sum(&message)])?;
    }
}

/// Asks once. Length and payload go out in one system call where that is possible.
pub(crate) fn ask(message: &[u8], from: &mut impl Read, to: &mut impl Write) -> io::Result<u8> {
    let length = (message.len() as u32).to_le_bytes();
    let wrote = to.write_vectored(&[io::IoSlice::new(&length), io::IoSlice::new(message)])?;
    match wrote.checked_sub(length.len()) {
        Some(sent) => to.write_all(&message[sent..])?,
        None => {
            to.write_all(&length[wrote..])?;
            to.write_all(message)?;
        }
    }
    let mut sum = [0];
    from.read_exact(&mut sum)?;
    Ok(sum[0])
}
