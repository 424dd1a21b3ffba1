import Foundation

// Changes to a connection URI (not to a keyword string), for the forms that tests use.

extension String {
  /// The range of the user, the hosts and the ports.
  private var authority: Range<Index> {
    let start = range(of: "://")?.upperBound ?? startIndex
    return start..<(self[start...].firstIndex { $0 == "/" || $0 == "?" } ?? endIndex)
  }

  private var host: Range<Index> {
    let authority = authority
    let at = self[authority].lastIndex(of: "@").map { index(after: $0) }
    return (at ?? authority.lowerBound)..<authority.upperBound
  }

  var port: UInt16? {
    self[host].lastIndex(of: ":").flatMap { UInt16(self[index(after: $0)..<host.upperBound]) }
  }

  func replacingHost(with host: String) -> String {
    replacingCharacters(in: self.host, with: host)
  }

  func replacingUser(with user: String) -> String {
    let authority = authority
    return replacingCharacters(in: authority.lowerBound..<host.lowerBound, with: "\(user)@")
  }

  func replacingDatabase(with name: String) -> String {
    let query = self[authority.upperBound...].firstIndex(of: "?") ?? endIndex
    return replacingCharacters(in: authority.upperBound..<query, with: "/\(name)")
  }
}
