import Foundation
import Platform

/// The process's limit of open descriptors, which is also its limit of connections.
public enum DescriptorLimit {
  /// Raises the soft limit to the hard limit. The usual soft limit of 1,024 is for programs that call select(2), which
  /// this one does not.
  ///
  /// - Returns: the new limit; 0 if it cannot be read.
  @discardableResult
  public static func raise() -> UInt {
    var limit = rlimit()
    guard getrlimit(Platform.openFiles, &limit) == 0 else { return 0 }
    guard limit.rlim_cur < limit.rlim_max else { return limit.rlim_cur }
    let before = limit.rlim_cur
    limit.rlim_cur = limit.rlim_max
    return setrlimit(Platform.openFiles, &limit) == 0 ? limit.rlim_cur : before
  }
}
