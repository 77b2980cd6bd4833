//! The checks of `[guest]`.

use toml::Spanned;

use super::FileError;
use super::form::{ArmForm, GuestForm, KernelForm};
use super::reader::Reader;
use crate::experiment::guest::{Boot, GuestKernel, GuestPlan, Guests};

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
        let mut plans = [GuestPlan::default(), GuestPlan::default()];
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

    fn lay_over(&self, plan: &mut GuestPlan, form: &Spanned<GuestForm>) -> Result<(), FileError> {
        let guest = form.get_ref();
        if let Some(kernel) = &guest.kernel {
            plan.kernel = self.kernel(kernel)?;
        }
        if let Some(smp) = &guest.smp {
            plan.smp.clone_from(&smp.0);
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

    fn kernel(&self, form: &Spanned<KernelForm>) -> Result<GuestKernel, FileError> {
        let wrong = |message: &str| self.error(form.span(), message);
        match form.get_ref() {
            KernelForm::Word(word) if word == "distribution" => Ok(GuestKernel::Distribution),
            KernelForm::Word(word) if word == "rt" => Ok(GuestKernel::RealTime),
            KernelForm::Named(named) => match (&named.package, &named.image) {
                (Some(package), None) if named.modules.is_none() => Ok(GuestKernel::Package(package.clone())),
                (None, Some(image)) if image.is_file() => {
                    let folder = named.modules.as_ref().filter(|folder| !folder.is_dir());
                    if let Some(folder) = folder {
                        return Err(wrong(&format!("there is no folder {}", folder.display())));
                    }
                    Ok(GuestKernel::Image { image: image.clone(), modules: named.modules.clone() })
                }
                (None, Some(image)) => Err(wrong(&format!("there is no file {}", image.display()))),
                _ => Err(wrong("a kernel has a `package`, or an `image` with `modules`")),
            },
            KernelForm::Word(word) => Err(wrong(&format!(
                "{word:?} is none of \"distribution\", \"rt\", {{ package = NAME }} and {{ image = FILE }}"
            ))),
        }
    }
}
