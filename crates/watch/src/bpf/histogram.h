/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A histogram's buckets: one for each value below 8, then eight for each power of two, so that a
 * bucket is at most 1/8 wide. Values from 2^EXPONENTS on are in the last one.
 */
static __always_inline __u32 bucket(__u64 value)
{
	__u32 exponent = 0;
	__u64 rest = value;

	if (value < 8)
		return value;
	if (value >> EXPONENTS)
		return BUCKETS - 1;
		/* The BPF instruction set has no count of leading zeros. */
#define HALVE(bits)                                                                                \
	if (rest >> bits) {                                                                        \
		rest >>= bits;                                                                     \
		exponent += bits;                                                                  \
	}
#if EXPONENTS > 32
	HALVE(32)
#endif
	HALVE(16)
	HALVE(8)
	HALVE(4)
	HALVE(2)
	HALVE(1)
#undef HALVE
	/* The three bits after the first one. */
	return (exponent - 2) * 8 + ((value >> (exponent - 3)) & 7);
}
