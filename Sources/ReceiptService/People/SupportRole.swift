/// The rights of a person. Each role has the rights of those before it.
public enum SupportRole: String, CaseIterable, Codable, Comparable, Sendable {
  /// Reads the figures of the business, and no customer's data.
  case numbers
  /// Finds and explains customers, and helps for a short time.
  case agent
  /// Does everything, and manages people.
  case lead

  /// Orders the roles by their rights.
  public static func < (first: SupportRole, second: SupportRole) -> Bool {
    allCases.firstIndex(of: first) ?? 0 < allCases.firstIndex(of: second) ?? 0
  }
}
