//! Policies: their files, and the daemon that carries them out.

mod hostile_users;
mod policy_daemon;
mod policy_files;
