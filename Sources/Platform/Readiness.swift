/// The events for which a ``DescriptorWatcher`` watches a descriptor, or that it found.
public struct Readiness: OptionSet, Sendable, Hashable {
  /// One bit for each event.
  public let rawValue: UInt8

  /// A set of events from its bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// There are bytes, a connection to accept, an end of file or an error.
  public static let reading = Readiness(rawValue: 1)
  /// There is room for bytes, or an error.
  public static let writing = Readiness(rawValue: 2)
}
