/// What is wrong with a setting or a configuration file, in one line that names it.
public struct ConfigurationProblem: Error, Sendable, Hashable, CustomStringConvertible {
  /// The setting, or the file and the path in it: `config/apps.json: apps[0].tiers.pro.rank`.
  public var subject: String
  /// What is wrong with it.
  public var reason: String

  /// Creates a problem.
  public init(_ subject: String, _ reason: String) {
    self.subject = subject
    self.reason = reason
  }

  /// One line, also where a key of the file, which is part of the path, holds a line break.
  public var description: String {
    String(
      String.UnicodeScalarView(
        "\(subject): \(reason)".unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }))
  }
}
