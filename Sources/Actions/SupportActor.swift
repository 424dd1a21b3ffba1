/// The party that performs an action of support, and how it was known.
package enum SupportActor: Hashable, Sendable {
  /// A person who signed in with a token of their own.
  case person(Person)
  /// A program with `SUPPORT_TOKEN`.
  /// - Parameter speakingFor: a name that it gave, which nothing proves.
  case machine(speakingFor: String? = nil)
  /// A command without a token. Its caller has the password of the database, and may give any name.
  case operatorNamed(String)
  /// A rule of receiptd itself.
  case rule(String)

  /// The value of the columns `by`.
  package var name: String {
    switch self {
    case .person(let person): person.name
    case .machine(nil): "machine"
    case .machine(let name?): "machine for \(name)"
    case .operatorNamed(let name), .rule(let name): name
    }
  }

  /// The value of the column `actor` of `support_actions`.
  package var kind: String {
    switch self {
    case .person: "person"
    case .machine: "machine"
    case .operatorNamed: "operator"
    case .rule: "receiptd"
    }
  }

  /// The value of the column `person_id` of `support_actions`.
  package var personID: Int64? {
    if case .person(let person) = self { person.id } else { nil }
  }

  /// - Throws: ``SupportRefusal`` `forbidden`, with the role that the operation needs.
  package func check(_ operation: SupportOperation) throws(SupportRefusal) {
    switch self {
    case .person(let person) where person.role < operation.leastRole:
      throw .forbidden(
        "'\(operation.rawValue)' needs the role \(operation.leastRole.rawValue), and \(person.name) has the role "
          + "\(person.role.rawValue).")
    case .machine where !operation.isOpenToMachines:
      throw .forbidden("'\(operation.rawValue)' needs the token of a person with the role lead.")
    case .person, .machine, .operatorNamed, .rule: return
    }
  }
}
