public import Foundation

/// A program to run, with its arguments, environment, folder and input.
public struct Command: Sendable {
  /// The exit status and output of a program.
  public struct Result: Sendable {
    /// The exit status, or the negative number of the signal that ended the program.
    public let status: Int32
    /// The standard output.
    public let output: Data
    /// The standard error.
    public let complaint: String

    /// The standard output as UTF-8.
    public var text: String { String(decoding: output, as: UTF8.self) }
  }

  /// A program that did not end with status 0.
  public struct Failure: Error {
    /// The program's name and arguments.
    public let command: [String]
    /// Its exit status and output.
    public let result: Result
  }

  /// A path, or a name that is looked up in `PATH`.
  public var program: String
  /// The arguments.
  public var arguments: [String]
  /// The environment; the program inherits no other variable.
  public var environment: [String: String]
  /// The working directory.
  public var folder: URL?
  /// The standard input.
  public var input: Data

  /// Creates a command. The environment is this process's by default.
  public init(
    _ program: String, _ arguments: [String] = [],
    environment: [String: String] = ProcessInfo.processInfo.environment, folder: URL? = nil,
    input: Data = Data()
  ) {
    self.program = program
    self.arguments = arguments
    self.environment = environment
    self.folder = folder
    self.input = input
  }

  /// Runs the program and waits for its end, but not for daemons that it leaves behind.
  public func run() async throws -> Result {
    let scratch = FileManager.default.temporaryDirectory.appending(path: "receiptd-test.\(UUID()).run")
    try FileManager.default.createDirectory(at: scratch, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: scratch) }
    let files = ["input", "output", "complaint"].map { scratch.appending(path: $0) }
    for (file, content) in zip(files, [input, Data(), Data()]) { try content.write(to: file) }
    let status = try await start(input: files[0].path, output: files[1].path, complaint: files[2].path)
      .exitStatus()
    return try Result(
      status: status, output: Data(contentsOf: files[1]),
      complaint: String(decoding: Data(contentsOf: files[2]), as: UTF8.self))
  }

  /// Runs the program, waits for its end, and requires exit status 0.
  ///
  /// - Returns: the standard output.
  /// - Throws: ``Failure`` for another exit status.
  @discardableResult public func output() async throws -> Data {
    let result = try await run()
    guard result.status == 0 else { throw Failure(command: [program] + arguments, result: result) }
    return result.output
  }

  /// Starts the program with files for its standard input, output and error. Output is appended.
  public func start(
    input: String = "/dev/null", output: String = "/dev/null", complaint: String = "/dev/null"
  ) throws -> RunningProcess {
    let spawn = Spawn(
      program: program, arguments: arguments, environment: environment, folder: folder?.path)
    return RunningProcess(
      try spawn.start { actions in
        posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0)
        for (descriptor, file) in [(Int32(1), output), (2, complaint)] {
          posix_spawn_file_actions_addopen(&actions, descriptor, file, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        }
      })
  }

  /// Starts the program when this process has ended for any reason.
  public func startAtEndOfProcess() throws {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { throw POSIXError(.EMFILE) }
    // This process never closes the other end and no child inherits it, so the end of file means the end of this
    // process.
    let input = ends[0]
    defer { close(input) }
    let wait = #"trap "" INT TERM HUP; read _; exec "$@""#
    let spawn = Spawn(
      program: "/bin/sh", arguments: ["-c", wait, "sh", program] + arguments, environment: environment,
      folder: folder?.path)
    _ = try spawn.start { actions in
      posix_spawn_file_actions_adddup2(&actions, input, 0)
      posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
      posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
    }
  }
}
