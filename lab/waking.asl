// What the guest's firmware leaves undone when it wakes from suspend to RAM: the chip with the power
// management registers forgets where they are, and SeaBIOS 1.16 does not tell it again. Without this
// a second suspend ends at once and the machine cannot be powered off: the kernel's words go nowhere.
//
// The addresses are those of QEMU's q35: the chip is PCI device 0:1f.0, its registers are at 0x600
// (Intel ICH9 data sheet, 13.1.13 PMBASE, 13.1.14 ACPI_CNTL, 13.8.3.3 PM1_CNT).
DefinitionBlock ("", "SSDT", 2, "RVEILL", "WAKING", 1)
{
    // By the ports of PCI's first configuration mechanism: the name of the chip in QEMU's tables is
    // another one in each version.
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

    // The kernel calls it when it is awake again (ACPI specification 6.5, section 7.4.5).
    Method (\_WAK, 1, Serialized)
    {
        ADDR = 0x8000F840 // PMBASE; the lowest bit says that it is an I/O address
        DATA = 0x601
        ADDR = 0x8000F844 // ACPI_CNTL; bit 7 says that the registers are to be used
        DATA = 0x80
        PM1 |= 1 // events interrupt the kernel, not the firmware
        Return (Package (2) { 0, 0 })
    }
}
