// What the guest's firmware omits on wake-up from suspend to RAM: the chip loses the address of its power
// management registers, and SeaBIOS 1.16 does not set it again. Without this
// a second suspend ends at once, and power-off does not work: the kernel's writes have no effect.
//
// The addresses are those of QEMU's q35: the chip is PCI device 0:1f.0, its registers are at 0x600
// (Intel ICH9 data sheet, 13.1.13 PMBASE, 13.1.14 ACPI_CNTL, 13.8.3.3 PM1_CNT).
DefinitionBlock ("", "SSDT", 2, "RVEILL", "WAKING", 1)
{
    // Uses the ports of PCI's first configuration mechanism, because the chip's name in QEMU's tables
    // differs between versions.
    OperationRegion (PCIC, SystemIO, 0xCF8, 8)
    Field (PCIC, DWordAcc, NoLock, Preserve)
    {
        ADDR, 32,
        DATA, 32
    }

    OperationRegion (PM1C, SystemIO, 0x604, 2)
    Field (PM1C, WordAcc, NoLock, Preserve)
    {
        PM1, 16
    }

    // The kernel calls it after wake-up (ACPI specification 6.5, section 7.4.5).
    Method (\_WAK, 1, Serialized)
    {
        ADDR = 0x8000F840 // PMBASE; the lowest bit marks an I/O address
        DATA = 0x601
        ADDR = 0x8000F844 // ACPI_CNTL; bit 7 enables the registers
        DATA = 0x80
        PM1 |= 1 // events interrupt the kernel, not the firmware
        Return (Package (2) { 0, 0 })
    }
}
