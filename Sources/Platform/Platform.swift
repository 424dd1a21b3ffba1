#if canImport(Darwin)
public import Darwin
#else
public import Glibc
#endif

/// The differences between Linux and macOS, and system calls whose names a method would hide.
///
/// Only this file imports the platform's C library; all others use its functions through Foundation.
public enum Platform {
  #if canImport(Darwin)
  /// `SOCK_STREAM`.
  public static let streamSocket = SOCK_STREAM
  /// `SOCK_DGRAM`.
  public static let datagramSocket = SOCK_DGRAM
  /// `RLIMIT_NOFILE`.
  public static let openFiles = RLIMIT_NOFILE
  /// `RUSAGE_SELF`.
  public static let ownUsage = RUSAGE_SELF
  /// Errors of accept(2) that only one of the systems has.
  public static let transientAcceptErrors: [Int32] = []
  private static let sendFlags: Int32 = 0
  #else
  /// `SOCK_STREAM`.
  public static let streamSocket = Int32(SOCK_STREAM.rawValue)
  /// `SOCK_DGRAM`.
  public static let datagramSocket = Int32(SOCK_DGRAM.rawValue)
  /// `RLIMIT_NOFILE`.
  public static let openFiles = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
  /// `RUSAGE_SELF`.
  public static let ownUsage = __rusage_who_t(RUSAGE_SELF.rawValue)
  /// Errors of accept(2) that only one of the systems has.
  public static let transientAcceptErrors = [ENONET]
  private static let sendFlags = Int32(MSG_NOSIGNAL)
  #endif

  /// Makes a socket non-blocking and closed in child processes. A write to a closed connection fails with an error and
  /// raises no signal, which would end the process.
  public static func prepare(_ descriptor: Int32) {
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    #if canImport(Darwin)
    var isSilent: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &isSilent, socklen_t(MemoryLayout<Int32>.size))
    #endif
  }

  /// send(2) that raises no SIGPIPE on a prepared socket.
  public static func send(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
    #if canImport(Darwin)
    Darwin.send(descriptor, bytes, count, sendFlags)
    #else
    Glibc.send(descriptor, bytes, count, sendFlags)
    #endif
  }

  /// write(2).
  public static func write(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
    #if canImport(Darwin)
    Darwin.write(descriptor, bytes, count)
    #else
    Glibc.write(descriptor, bytes, count)
    #endif
  }

  /// shutdown(2) of the sending half.
  public static func shutdownSending(_ descriptor: Int32) {
    #if canImport(Darwin)
    _ = Darwin.shutdown(descriptor, SHUT_WR)
    #else
    _ = Glibc.shutdown(descriptor, Int32(SHUT_WR))
    #endif
  }

  /// close(2).
  public static func close(_ descriptor: Int32) {
    #if canImport(Darwin)
    _ = Darwin.close(descriptor)
    #else
    _ = Glibc.close(descriptor)
    #endif
  }

  /// fchmod(2) of a file to 0600; false if that failed. Devices such as /dev/stdout are left alone.
  public static func makePrivate(_ descriptor: Int32) -> Bool {
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return true }
    return fchmod(descriptor, 0o600) == 0
  }

  /// stat(2) of the file that the path leads to; nil if there is none.
  public static func fileStatus(_ path: String) -> FileStatus? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    #if canImport(Darwin)
    let modified = status.st_mtimespec
    #else
    let modified = status.st_mtim
    #endif
    return FileStatus(
      device: UInt64(status.st_dev), inode: UInt64(status.st_ino), size: Int64(status.st_size),
      seconds: Int64(modified.tv_sec), nanoseconds: Int64(modified.tv_nsec))
  }
}

/// The parts of a file's status that change when the file is written or replaced.
public struct FileStatus: Sendable, Equatable {
  /// The file system.
  public var device: UInt64
  /// The file's number in its file system.
  public var inode: UInt64
  /// In bytes.
  public var size: Int64
  /// When the file was modified, in seconds since 1970.
  public var seconds: Int64
  /// The part of a second of ``seconds``.
  public var nanoseconds: Int64

  /// A status from its parts.
  public init(
    device: UInt64 = 0, inode: UInt64 = 0, size: Int64 = 0, seconds: Int64 = 0, nanoseconds: Int64 = 0
  ) {
    self.device = device
    self.inode = inode
    self.size = size
    self.seconds = seconds
    self.nanoseconds = nanoseconds
  }
}
