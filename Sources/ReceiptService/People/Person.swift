import Foundation
import Postgres

/// A person who works with receiptd: a row of the table `people`.
public struct Person: Hashable, Sendable {
  /// The number in `support_actions.person_id`.
  let id: Int64
  /// The name in every record.
  let name: String
  let role: SupportRole
  let createdAt: Date
  /// The name of the actor who added the person.
  let createdBy: String
  /// When the token was last used, to the hour.
  let lastUsedAt: Date?
  /// When the person was removed; `nil` while the person can sign in.
  let removedAt: Date?
  let removedBy: String?

  init(_ row: Row) throws {
    id = try row.decode("id")
    name = try row.decode("name")
    let role: String = try row.decode("role")
    guard let known = SupportRole(rawValue: role) else { throw UnknownRole(name: role) }
    self.role = known
    createdAt = try row.decode("created_at")
    createdBy = try row.decode("created_by")
    lastUsedAt = try row.decode("last_used_at")
    removedAt = try row.decode("removed_at")
    removedBy = try row.decode("removed_by")
  }

  /// A role of a newer version.
  private struct UnknownRole: Error { let name: String }
}

extension Person: Encodable {
  private enum Key: CodingKey {
    case name, role, createdAt, createdBy, lastUsedAt, removedAt, removedBy
  }

  /// Encodes one object; a missing date is `null`.
  public func encode(to encoder: any Encoder) throws {
    var members = encoder.container(keyedBy: Key.self)
    try members.encode(name, forKey: .name)
    try members.encode(role, forKey: .role)
    try members.encode(createdAt, forKey: .createdAt)
    try members.encode(createdBy, forKey: .createdBy)
    try members.encode(lastUsedAt, forKey: .lastUsedAt)
    try members.encode(removedAt, forKey: .removedAt)
    try members.encode(removedBy, forKey: .removedBy)
  }
}

/// A person who was added, with the token, which is shown once.
public struct AddedPerson: Encodable, Sendable, CustomStringConvertible {
  let person: Person
  let token: String

  /// Two lines; the second one is the token.
  public var description: String {
    "\(person.name) is added with the role \(person.role.rawValue). The token is shown this once:\n\(token)"
  }
}

/// A person who was removed.
public struct RemovedPerson: Encodable, Sendable, CustomStringConvertible {
  let person: Person
  /// Whether this call removed the person.
  let isChanged: Bool

  /// One line.
  public var description: String {
    isChanged
      ? "\(person.name) is removed; the token ends now"
      : "\(person.name) is removed already, since \(person.removedAt?.rfc3339 ?? "") by \(person.removedBy ?? "")"
  }
}

/// The people, those who can sign in first.
public struct PeopleList: Encodable, Sendable, CustomStringConvertible {
  let people: [Person]

  /// A paragraph for each person.
  public var description: String {
    var output = TerminalText()
    for person in people {
      output.line("\(person.name), \(person.role.rawValue)", indent: 0)
      var words = "added \(person.createdAt.rfc3339) by \(person.createdBy)"
      words += person.lastUsedAt.map { ", last used \($0.rfc3339)" } ?? ", never used"
      if let removedAt = person.removedAt {
        words += ", removed \(removedAt.rfc3339) by \(person.removedBy ?? "")"
      }
      output.line(words)
    }
    if output.isEmpty {
      output.line("no people; receiptd people add NAME --role lead adds the first", indent: 0)
    }
    return output.text
  }
}
