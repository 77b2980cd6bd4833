//! The checks of `[guest]`.

use handoff_guest::{GuestSpec, Kernel};
use toml::Spanned;

use super::FileError;
use super::form::{ArmForm, GuestForm};
use super::reader::Reader;
use crate::experiment::guest::{Boot, Guests};

impl Reader<'_> {
    /// The guests of both arms: what `[guest]` says, with what an arm says of its own on top.
    pub(super) fn guests(
        &self,
        common: Option<&Spanned<GuestForm>>,
        arms: [&Spanned<ArmForm>; 2],
    ) -> Result<Option<Guests>, FileError> {
        let own = arms.map(|arm| arm.get_ref().guest.as_ref());
        let Some(common) = common else {
            return match own.iter().flatten().next() {
                Some(form) => Err(self.error(form.span(), "an arm has a guest, but there is no [guest]")),
                None => Ok(None),
            };
        };
        for arm in arms {
            if let Some(program) = &arm.get_ref().program {
                let message = "`program` is a file of this machine, and the arms run in a guest";
                return Err(self.error(program.span(), message));
            }
        }
        let mut plans = [GuestSpec::default(), GuestSpec::default()];
        for (plan, own) in plans.iter_mut().zip(own) {
            self.lay_over(plan, common)?;
            if let Some(own) = own {
                if own.get_ref().boot.is_some() {
                    return Err(
                        self.error(own.span(), "`boot` is the same for both arms: it goes into [guest]")
                    );
                }
                self.lay_over(plan, own)?;
            }
        }
        let differ = plans[0] != plans[1];
        let boot = match common.get_ref().boot {
            Some(Boot::Once) if differ => {
                let message =
                    "the arms differ in their guest, so that a boot is the replicate: boot = \"each\"";
                return Err(self.error(common.span(), message));
            }
            Some(boot) => boot,
            None if differ => Boot::Each,
            None => Boot::Once,
        };
        Ok(Some(Guests { arms: plans, boot }))
    }

    fn lay_over(&self, plan: &mut GuestSpec, form: &Spanned<GuestForm>) -> Result<(), FileError> {
        let guest = form.get_ref();
        if let Some(kernel) = &guest.kernel {
            plan.kernel = self.kernel(kernel)?;
        }
        if let Some(smp) = &guest.smp {
            plan.smp = Some(smp.clone());
        }
        if let Some(memory) = &guest.memory_mib {
            if !(128..=1 << 20).contains(memory.get_ref()) {
                let message = format!("memory_mib is {}; a guest has 128 MiB or more", memory.get_ref());
                return Err(self.error(memory.span(), message));
            }
            plan.memory_mib = *memory.get_ref();
        }
        plan.accel = guest.accel.unwrap_or(plan.accel);
        plan.icount = guest.icount.unwrap_or(plan.icount);
        plan.modules.extend(guest.modules.iter().cloned());
        for words in &guest.append {
            if words.get_ref().contains(['\n', '\0']) {
                return Err(self.error(words.span(), "a kernel's command line is one line"));
            }
            plan.append.push(words.get_ref().clone());
        }
        Ok(())
    }

    fn kernel(&self, kernel: &Spanned<Kernel>) -> Result<Kernel, FileError> {
        if let Kernel::Image { image, modules } = kernel.get_ref() {
            if !image.is_file() {
                return Err(self.error(kernel.span(), format!("there is no file {}", image.display())));
            }
            if let Some(folder) = modules.as_ref().filter(|folder| !folder.is_dir()) {
                return Err(self.error(kernel.span(), format!("there is no folder {}", folder.display())));
            }
        }
        Ok(kernel.get_ref().clone())
    }
}
