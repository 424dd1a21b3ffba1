// swift-format-ignore-file
// The part of SwiftUI's interface that docs/client.md uses. It does nothing.
public protocol ObservableObject: AnyObject {}

@propertyWrapper public struct Published<Value> {
  public var wrappedValue: Value
  public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
}

@propertyWrapper public struct EnvironmentObject<Value: ObservableObject> {
  public var wrappedValue: Value { fatalError("a stand-in") }
  public init() {}
}

@resultBuilder public enum ViewBuilder {
  public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
  public static func buildEither<A: View, B: View>(first: A) -> Either<A, B> { Either() }
  public static func buildEither<A: View, B: View>(second: B) -> Either<A, B> { Either() }
}

@MainActor public protocol View {
  associatedtype Body: View
  @ViewBuilder var body: Body { get }
}

extension Never: View {
  public var body: Never { fatalError("a stand-in") }
}

public struct Either<A: View, B: View>: View {
  nonisolated init() {}
  public var body: Never { fatalError("a stand-in") }
}

public struct Text: View {
  public init(_ text: String) {}
  public var body: Never { fatalError("a stand-in") }
}
