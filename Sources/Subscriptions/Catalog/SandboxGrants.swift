import Foundation

/// The customers whose sandbox purchases give access.
public enum SandboxGrants: Sendable, Hashable {
  /// No customer.
  case nobody
  /// Every customer, for a staging server.
  case everyone
  /// Every customer before this instant, for App Review and TestFlight.
  case everyoneUntil(Date)
  /// These users and devices.
  case testers(Set<String>)

  /// Whether sandbox purchases of this customer give access at `instant`.
  public func include(_ customer: Customer?, at instant: Date) -> Bool {
    switch self {
    case .nobody, .everyone, .everyoneUntil: isOpenToEveryone(at: instant)
    case .testers(let ids):
      customer.map { customer in
        ids.contains { $0.caseInsensitiveEquals(customer.id) }
      } ?? false
    }
  }

  /// Whether sandbox purchases of every customer give access at `instant`.
  public func isOpenToEveryone(at instant: Date) -> Bool {
    switch self {
    case .nobody, .testers: false
    case .everyone: true
    case .everyoneUntil(let end): instant < end
    }
  }

  /// The end of the open window; nil if no window is open at `instant`.
  public func windowEnd(at instant: Date) -> Date? {
    if case .everyoneUntil(let end) = self, instant < end { end } else { nil }
  }
}

extension String {
  fileprivate func caseInsensitiveEquals(_ other: String) -> Bool { lowercased() == other.lowercased() }
}
