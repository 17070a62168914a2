//! Which interrupt of a card brings the replies, and to which CPU.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use reveille_kernel::bpf::{self, KernelBtf, Shared, word};
use reveille_kernel::network;

use crate::Result;

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/card.skel.rs"));
}
use skeleton::{CardSkel, CardSkelBuilder, types};

/// The loaded programs, which observe until it is dropped.
pub struct Finder {
    _skel: CardSkel<'static>,
    shared: Shared<types::bss>,
}

/// What brought a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Came {
    pub interrupt: u32,
    pub cpu: u32,
}

impl Finder {
    /// For the interface of that index.
    pub fn load(interface: u32) -> Result<Self> {
        let mut open = CardSkelBuilder::default().open(bpf::storage())?;
        let rodata = open.maps.rodata_data.as_deref_mut();
        let rodata = rodata.expect("the object has settings");
        rodata.interface = interface as i32;
        rodata.namespace = network::namespace()?;
        bpf::choose(&mut open, &KernelBtf::read()?, |_, _| true);
        let mut skel = open.load().map_err(bpf::cannot_load)?;
        skel.attach().map_err(bpf::cannot_load)?;
        let shared = Shared::of(&skel.maps.bss, 1)?;
        Ok(Self {
            _skel: skel,
            shared,
        })
    }

    /// Looks for the reply of that number.
    pub fn expect(&self, number: u32) {
        word!(self.shared.at(0), types::bss, awaited).store(number, Release);
    }

    /// What brought it, if it came.
    pub fn came(&self) -> Option<Came> {
        let place = self.shared.at(0);
        let is_awaited = word!(place, types::bss, awaited).load(Acquire) != 0;
        (!is_awaited).then(|| Came {
            interrupt: word!(place, types::bss, found_irq).load(Relaxed) as u32,
            cpu: word!(place, types::bss, found_cpu).load(Relaxed),
        })
    }
}
