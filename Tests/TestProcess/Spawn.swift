import CSpawn
import Foundation

/// A wrapper of `posix_spawn`. Foundation's `Process` reports the end of a program only after its daemons have ended
/// too, and waiting for it blocks a thread.
struct Spawn {
  /// A program that could not be started, with its `errno`.
  struct Failure: Error {
    let program: String
    let reason: Int32
  }

  /// A path, or a name that is looked up in `PATH`.
  var program: String
  var arguments: [String]
  var environment: [String: String]
  var folder: String?

  /// Starts the program with the descriptors 0, 1 and 2 from `descriptors` and no other: a child that inherited a
  /// test's listening socket would keep its port in use.
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
