import CLibpq

/// Takes the notices of one connection, which libpq would print to stderr.
///
/// libpq calls back while it parses what was read, which happens only under the lock of the
/// connection's channel: the same lock that protects this object.
final class NoticeCollector {
  private static let limit = 1000
  private var notices: [ServerReport] = []

  /// Registers with a connection, which must not outlive this object.
  func register(with session: LibpqSession) {
    _ = PQsetNoticeReceiver(
      session.handle,
      { context, result in
        guard let context, let notice = ServerReport(result) else { return }
        Unmanaged<NoticeCollector>.fromOpaque(context).takeUnretainedValue().add(notice)
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  private func add(_ notice: ServerReport) {
    // The latest are kept: that a commit did not reach the standby is the last that is said.
    if notices.count == Self.limit { notices.removeFirst() }
    notices.append(notice)
  }

  /// One of them says that the server ends the session.
  var endSession: Bool { notices.contains(where: \.endsSession) }

  /// Hands over what has come.
  func take() -> [ServerReport] {
    if notices.isEmpty { return [] }
    defer { notices.removeAll() }
    return notices
  }
}
