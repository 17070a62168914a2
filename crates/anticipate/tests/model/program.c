// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The model as a program for the tests. Each line that it reads is one of
 *
 *	o SECTORS NS	an I/O is observed
 *	p SECTORS	answered by "NS EARLY_NS LATE_NS", or by "-" if it is unknown
 *	m		answered by the fields of the model
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/types.h>
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#include "model.h"

_Static_assert(sizeof(struct model) == 128, "the BPF program's memory is counted with 128 bytes");

#define PRINT(field) printf(#field " %" PRId64 " ", (int64_t)model.field)

int main(void)
{
	struct model model = {};
	struct prediction predicted;
	char line[80];

	while (fgets(line, sizeof line, stdin)) {
		char *rest = line + 1;
		__u32 sectors = strtoull(rest, &rest, 10);

		switch (line[0]) {
		case 'o':
			model_observe(&model, sectors, strtoull(rest, NULL, 10));
			break;
		case 'p':
			if (model_predict(&model, sectors, &predicted))
				printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
				       (uint64_t)predicted.ns, (uint64_t)predicted.early_ns,
				       (uint64_t)predicted.late_ns);
			else
				puts("-");
			break;
		case 'm':
			PRINT(count);
			PRINT(refused);
			PRINT(mean_sectors);
			PRINT(mean_ns);
			PRINT(var);
			PRINT(cov);
			PRINT(seen_var_sectors);
			PRINT(seen_var_ns);
			PRINT(seen_cov);
			PRINT(age);
			PRINT(spread);
			PRINT(early);
			PRINT(late);
			PRINT(changes);
			PRINT(informed);
			putchar('\n');
			break;
		}
	}
	return 0;
}
