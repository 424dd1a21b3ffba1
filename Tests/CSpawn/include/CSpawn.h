// What posix_spawn(3) of glibc can do beyond POSIX, which the headers show only to who defines _GNU_SOURCE.
#pragma once
#include <spawn.h>

/// The program starts in this folder.
int cspawn_add_folder(posix_spawn_file_actions_t *actions, const char *folder);

/// The program gets no descriptor from this one on.
int cspawn_add_close_from(posix_spawn_file_actions_t *actions, int descriptor);
