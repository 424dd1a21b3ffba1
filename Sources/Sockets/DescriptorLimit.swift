import Glibc

/// How many descriptors the process may have open, which is how many connections.
public enum DescriptorLimit {
  /// Raises the limit to what the system lets this process have. The usual 1,024 are kept for programs that call
  /// select(2), which cannot take more; nothing here does.
  ///
  /// - Returns: the limit that holds now.
  @discardableResult
  public static func raise() -> UInt {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 0 }
    guard limit.rlim_cur < limit.rlim_max else { return limit.rlim_cur }
    let before = limit.rlim_cur
    limit.rlim_cur = limit.rlim_max
    return setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 ? limit.rlim_cur : before
  }
}
