// This file cannot run where the package is developed (Linux). It only translates between StoreKit 2 and the client, was checked by
// reading against StoreKit's public interface (iOS 16, macOS 13, watchOS 9, tvOS 16, visionOS 1), and is type-checked against a
// stand-in for StoreKit by scripts/harness/check-client.

#if canImport(StoreKit)
import Foundation
public import StoreKit

/// The result of ``Receiptd/purchase(_:options:)``.
public enum PurchaseOutcome<Features: Codable & Sendable>: Sendable {
  /// The server has the purchase, or keeps asking for it: show ``Receiptd/current``.
  case bought(Entitlement<Features>)
  /// The purchase waits, such as for a parent's approval (Ask to Buy). `observeTransactions` gets it later.
  case pending
  /// The customer cancelled.
  case cancelled
}

extension Receiptd {
  /// Sends all that StoreKit reports, and finishes each transaction after the server's final answer. Call it once, at launch, in a
  /// task that lives as long as the app. Transactions that it cannot send yet, such as before the user signs in, are not finished:
  /// call ``submitUnfinished()`` after ``signIn(_:)``.
  public func observeTransactions() async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.submitUnfinished() }
      group.addTask {
        for await result in StoreKit.Transaction.updates { await self.send(result) }
      }
    }
  }

  /// Sends the transactions that are not finished.
  public func submitUnfinished() async {
    for await result in StoreKit.Transaction.unfinished { await send(result) }
  }

  /// Submits one transaction, and finishes it if the answer is final.
  private func send(_ result: VerificationResult<StoreKit.Transaction>) async {
    do {
      _ = try await submit(.signedTransaction(result.jwsRepresentation))
      await result.unsafePayloadValue.finish()
    } catch let error as ReceiptdError where error.advice == .giveUp {
      await result.unsafePayloadValue.finish()
    } catch {
      // Kept in the queue, and StoreKit gives it again at the next launch.
    }
  }

  #if !os(visionOS)
  /// Buys a product. For a user it sets `appAccountToken`, so that Apple's notifications name the user.
  /// - Throws: StoreKit's errors, and a ``ReceiptdError`` with the advice ``ReceiptdError/Advice/giveUp``.
  public func purchase(
    _ product: Product, options: Set<Product.PurchaseOption> = []
  ) async throws -> PurchaseOutcome<Features> {
    let result = try await product.purchase(options: options.union(await accountOptions))
    return try await handle(result)
  }
  #endif

  /// The purchase options that name the signed-in user, for SwiftUI's `PurchaseAction` and for visionOS.
  public var accountOptions: Set<Product.PurchaseOption> {
    get async {
      if case .user(let id)? = await core.customer { return [.appAccountToken(id)] }
      return []
    }
  }

  /// Takes the result of a purchase that the app made itself.
  /// - Throws: a ``ReceiptdError`` with the advice ``ReceiptdError/Advice/giveUp``.
  public func handle(_ result: Product.PurchaseResult) async throws -> PurchaseOutcome<Features> {
    switch result {
    case .success(let verification):
      do {
        let entitlement = try await submit(.signedTransaction(verification.jwsRepresentation))
        await verification.unsafePayloadValue.finish()
        return .bought(entitlement)
      } catch let error as ReceiptdError {
        guard error.advice == .giveUp else { return .bought(current) }
        await verification.unsafePayloadValue.finish()
        throw error
      }
    case .pending: return .pending
    case .userCancelled: return .cancelled
    @unknown default: return .pending
    }
  }

  /// Restores purchases: asks the App Store for the account's transactions, and sends them in one request.
  /// - Throws: StoreKit's errors, such as a cancelled sign-in, and ``ReceiptdError``.
  public func restore() async throws -> Entitlement<Features> {
    try await AppStore.sync()
    return try await syncCurrent()
  }

  /// Sends the account's current transactions without asking for a sign-in: at each launch.
  /// - Throws: ``ReceiptdError``.
  public func syncCurrent() async throws -> Entitlement<Features> {
    var transactions: [String] = []
    for await result in StoreKit.Transaction.currentEntitlements {
      transactions.append(result.jwsRepresentation)
    }
    let app = try? await AppTransaction.shared.jwsRepresentation
    return try await sync(transactions, appTransaction: app)
  }

  /// Starts the app's own free time with StoreKit's app transaction: at each launch.
  /// - Throws: StoreKit's errors, and ``ReceiptdError``.
  public func startTrial() async throws -> Trial {
    try await startTrial(appTransaction: try await AppTransaction.shared.jwsRepresentation)
  }

  /// StoreKit's own verdict, for `deviceVerdict`: a purchase of one of these products that is verified, not revoked, and not
  /// another user's.
  public static func storeKitVerdict(
    _ products: Set<String>, opens features: Features, tier: String? = nil
  ) -> @Sendable (Customer) async -> DeviceVerdict<Features>? {
    { customer in
      for await result in StoreKit.Transaction.currentEntitlements {
        guard case .verified(let transaction) = result, products.contains(transaction.productID),
          transaction.revocationDate == nil
        else { continue }
        if case .user(let id) = customer, let owner = transaction.appAccountToken, owner != id { continue }
        return DeviceVerdict(features: features, tier: tier, validUntil: transaction.expirationDate)
      }
      return nil
    }
  }
}
#endif
