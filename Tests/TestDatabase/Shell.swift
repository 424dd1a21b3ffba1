import Foundation

/// Starts programs with `posix_spawn`. Foundation's `Process` notices the end of a program only when
/// every daemon that it left behind has ended too.
enum Shell {
  /// A program did not end with status 0; it has said why on stderr.
  struct Failure: Error {
    let command: [String]
    let status: Int32
  }

  /// Runs a program to its end. Blocks.
  ///
  /// - Returns: what it wrote to its output before its end.
  static func run(_ command: [String], environment: [String: String] = [:]) throws -> String {
    let file = "/tmp/receiptd-test.\(UUID().uuidString).out"
    defer { unlink(file) }
    let process = try spawn(command, environment: environment) { actions in
      posix_spawn_file_actions_addopen(&actions, 1, file, O_WRONLY | O_CREAT | O_EXCL, 0o600)
    }
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0, errno == EINTR {}
    guard status == 0 else { throw Failure(command: command, status: status) }
    return try String(contentsOfFile: file, encoding: .utf8)
  }

  /// Starts a shell script that reads the end of its input when this process is gone, however it
  /// went. The descriptor that keeps it waiting is never closed and not inherited.
  static func atEndOfProcess(_ script: String, arguments: [String]) throws {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { throw POSIXError(.EMFILE) }
    let (input, lifeline) = (ends[0], ends[1])
    _ = fcntl(input, F_SETFD, FD_CLOEXEC)
    _ = fcntl(lifeline, F_SETFD, FD_CLOEXEC)
    let wait = #"trap "" INT TERM HUP; read _; "# + script
    _ = try spawn(["/bin/sh", "-c", wait, "sh"] + arguments) { actions in
      posix_spawn_file_actions_adddup2(&actions, input, 0)
      posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
      posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
    }
    close(input)
  }

  private static func spawn(
    _ command: [String], environment: [String: String] = [:],
    _ configure: (inout posix_spawn_file_actions_t) -> Void
  ) throws -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    configure(&actions)
    let merged = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    let arguments = command.map { strdup($0) } + [nil]
    let variables = merged.map { strdup("\($0)=\($1)") } + [nil]
    defer { for pointer in arguments + variables { free(pointer) } }
    var process: pid_t = 0
    guard posix_spawn(&process, command[0], &actions, nil, arguments, variables) == 0 else {
      throw Failure(command: command, status: -1)
    }
    return process
  }
}
