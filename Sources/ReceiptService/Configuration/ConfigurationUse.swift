import Logging

/// A part of the configuration that a command may use. A command logs warnings only about the parts that it uses.
public enum ConfigurationUse: Sendable, Hashable, CaseIterable {
  /// The tokens and secrets of requests, and variables that no part of receiptd reads.
  case requests
  /// Destinations of deliveries.
  case deliveries

  /// All parts, for the server.
  public static let all = Set(allCases)
}

extension Logger {
  /// A logger that discards all lines.
  static var silent: Logger { Logger(label: "receiptd") { _ in SwiftLogNoOpLogHandler() } }
}
