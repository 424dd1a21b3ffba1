#ifndef RECEIPTD_CBUILDINFO_H
#define RECEIPTD_CBUILDINFO_H

// The commit that the builder named in RECEIPTD_COMMIT; an empty string where it named none.
const char *receiptd_build_commit(void);

#endif
