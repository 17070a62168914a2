// Idle states for a machine that has none: each CPU of QEMU's q35 gets three, so that Linux's
// acpi_idle driver shows POLL, C1, C2 and C3.
//
// A _CST package (ACPI specification 6.5, section 8.4.1.1) lists per state: the register whose
// access enters it, the ACPI type (1 to 3), the exit latency (µs) and the power (mW).
DefinitionBlock ("", "SSDT", 2, "RVEILL", "IDLE", 1)
{
    Scope (\_SB)
    {
        Name (CSTS, Package ()
        {
            3,
            // A bit width of 0 means: entered by HLT.
            Package () { ResourceTemplate () { Register (FFixedHW, 0, 0, 0) }, 1, 2, 1000 },
            // Unused ports of the q35's power-management block: reading one returns at
            // once; lab/module/halts.c makes the CPU halt instead.
            Package () { ResourceTemplate () { Register (SystemIO, 8, 0, 0x614) }, 2, 33, 500 },
            Package () { ResourceTemplate () { Register (SystemIO, 8, 0, 0x615) }, 3, 133, 100 }
        })
    }

    External (\_SB.CPUS.C000, DeviceObj)
    External (\_SB.CPUS.C001, DeviceObj)
    External (\_SB.CPUS.C002, DeviceObj)
    External (\_SB.CPUS.C003, DeviceObj)

    // A guest may have fewer CPUs, and a scope that is not there makes the kernel refuse the table.
    If (CondRefOf (\_SB.CPUS.C000)) { Scope (\_SB.CPUS.C000) { Method (_CST) { Return (CSTS) } } }
    If (CondRefOf (\_SB.CPUS.C001)) { Scope (\_SB.CPUS.C001) { Method (_CST) { Return (CSTS) } } }
    If (CondRefOf (\_SB.CPUS.C002)) { Scope (\_SB.CPUS.C002) { Method (_CST) { Return (CSTS) } } }
    If (CondRefOf (\_SB.CPUS.C003)) { Scope (\_SB.CPUS.C003) { Method (_CST) { Return (CSTS) } } }
}
