/// Where a purchase was made: Apple's `environment`.
public enum StoreEnvironment: String, Sendable, Hashable, CaseIterable {
  /// Real money.
  case production = "Production"
  /// Testers, TestFlight and App Review.
  case sandbox = "Sandbox"
}
