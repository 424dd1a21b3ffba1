import CSpawn
import Foundation

/// `posix_spawn`. Foundation's `Process` notices the end of a program only when every daemon that it left behind has
/// ended too, and can only be waited for by a thread that does nothing else.
struct Spawn {
  /// A program that could not be started, with its `errno`.
  struct Failure: Error {
    let program: String
    let reason: Int32
  }

  /// A path, or a name to be looked up in `PATH`.
  var program: String
  var arguments: [String]
  var environment: [String: String]
  var folder: String?

  /// Starts the program. It gets the descriptors 0, 1 and 2 that `descriptors` provides, and no other: a listening
  /// socket of a test that lived on in a child would keep its port taken.
  func start(_ descriptors: (inout posix_spawn_file_actions_t) -> Void) throws -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    if let folder { cspawn_add_folder(&actions, folder) }
    descriptors(&actions)
    cspawn_add_close_from(&actions, 3)
    // Dispatch's threads block signals, which a child would inherit.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))

    let words = ([program] + arguments).map { strdup($0) } + [nil]
    let variables = environment.map { strdup("\($0)=\($1)") } + [nil]
    defer { for pointer in words + variables { free(pointer) } }
    var process: pid_t = 0
    let reason = posix_spawnp(&process, program, &actions, &attributes, words, variables)
    guard reason == 0 else { throw Failure(program: program, reason: reason) }
    return process
  }
}
