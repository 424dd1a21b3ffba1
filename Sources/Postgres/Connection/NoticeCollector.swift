import CLibpq

/// Collects the notices of one connection, which libpq would print to stderr.
///
/// libpq calls back while it parses input. That happens only under the lock of the ``PipelinedConnection``, which also
/// protects this object.
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
    // Keep the latest notices: the warning that a commit did not reach the standby comes last.
    if notices.count == Self.limit { notices.removeFirst() }
    notices.append(notice)
  }

  /// Whether the server has ended the session with one of the notices.
  var endSession: Bool { notices.contains(where: \.endsSession) }

  /// Removes and returns the notices.
  func take() -> [ServerReport] {
    if notices.isEmpty { return [] }
    defer { notices.removeAll() }
    return notices
  }
}
