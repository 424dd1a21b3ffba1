#include "CBuildInfo.h"

// Package.swift defines it from the environment. Only this file and the link depend on it, so a build of another commit
// compiles nothing else again.
#ifndef RECEIPTD_COMMIT
#define RECEIPTD_COMMIT ""
#endif

const char *receiptd_build_commit(void) { return RECEIPTD_COMMIT; }
