// swift-format-ignore-file
// The part of StoreKit's interface that the client uses, so that Client/Sources/ReceiptdClient/StoreKitGlue.swift is type-checked on
// Linux too. It does nothing.
public import Foundation

public struct Transaction: Sendable {
  public struct Transactions: AsyncSequence, Sendable {
    public struct AsyncIterator: AsyncIteratorProtocol {
      public mutating func next() async -> VerificationResult<Transaction>? { nil }
    }
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator() }
  }

  public static var updates: Transactions { Transactions() }
  public static var unfinished: Transactions { Transactions() }
  public static var currentEntitlements: Transactions { Transactions() }

  public let productID: String
  public let appAccountToken: UUID?
  public let expirationDate: Date?
  public let revocationDate: Date?
  public func finish() async {}
}

public struct AppTransaction: Sendable {
  public static var shared: VerificationResult<AppTransaction> { get async throws { throw CancellationError() } }
}

public enum VerificationResult<SignedType> {
  public enum VerificationError: Error { case invalidSignature }

  case unverified(SignedType, VerificationError)
  case verified(SignedType)

  public var unsafePayloadValue: SignedType {
    switch self {
    case .unverified(let value, _), .verified(let value): value
    }
  }
}

extension VerificationResult: Sendable where SignedType: Sendable {}
extension VerificationResult where SignedType == Transaction {
  public var jwsRepresentation: String { "" }
}
extension VerificationResult where SignedType == AppTransaction {
  public var jwsRepresentation: String { "" }
}

public struct Product: Sendable {
  public struct PurchaseOption: Sendable, Hashable {
    public static func appAccountToken(_ token: UUID) -> Self { Self() }
  }

  public enum PurchaseResult: Sendable {
    case success(VerificationResult<Transaction>)
    case userCancelled
    case pending
  }

  public func purchase(options: Set<PurchaseOption> = []) async throws -> PurchaseResult { .pending }
}

public enum AppStore {
  public static func sync() async throws {}
}
