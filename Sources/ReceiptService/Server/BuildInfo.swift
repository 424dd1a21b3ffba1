/// The version of receiptd, as `receiptd --version` and the metric `receiptd_build_info` show it.
public enum BuildInfo {
  /// The version, as in `CHANGELOG.md`.
  public static let version = "0.1.0"
}
