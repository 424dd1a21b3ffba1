// Functions of glibc's posix_spawn(3) beyond POSIX, which the headers declare only with _GNU_SOURCE.
#pragma once
#include <spawn.h>

/// Starts the program in this folder.
int cspawn_add_folder(posix_spawn_file_actions_t *actions, const char *folder);

/// Closes this descriptor and all higher ones in the program.
int cspawn_add_close_from(posix_spawn_file_actions_t *actions, int descriptor);
