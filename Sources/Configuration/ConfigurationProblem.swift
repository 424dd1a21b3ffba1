/// An invalid setting or configuration file, described in one line that names it.
package struct ConfigurationProblem: Error, Sendable, Hashable, CustomStringConvertible {
  /// The setting, or the file and the path in it: `config/apps.json: apps[0].tiers.pro.rank`.
  package var subject: String
  /// The reason why it is invalid.
  package var reason: String

  /// Creates a problem.
  package init(_ subject: String, _ reason: String) {
    self.subject = subject
    self.reason = reason
  }

  /// One line. Control characters, which a key in the path may have, become spaces.
  package var description: String {
    String(
      String.UnicodeScalarView(
        "\(subject): \(reason)".unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }))
  }
}
