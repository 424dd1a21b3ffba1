/// Apple's `environment` of a purchase.
public enum StoreEnvironment: String, Sendable, Hashable, CaseIterable {
  /// Real purchases.
  case production = "Production"
  /// Testers, TestFlight and App Review.
  case sandbox = "Sandbox"
}
