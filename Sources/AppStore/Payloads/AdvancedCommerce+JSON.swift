import JSON

extension AdvancedCommerceTransactionInfo: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case descriptors, estimatedTax, items, period, requestReferenceId, taxCode, taxExclusivePrice, taxRate
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object; members that it does not know are passed over.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .descriptors: descriptors = try json.readOrNull()
      case .estimatedTax: estimatedTax = try json.readOrNull()
      case .items: items = try json.readOrNull()
      case .period: period = try json.readOrNull()
      case .requestReferenceId: requestReferenceId = try json.readOrNull()
      case .taxCode: taxCode = try json.readOrNull()
      case .taxExclusivePrice: taxExclusivePrice = try json.readOrNull()
      case .taxRate: taxRate = try json.readOrNull()
      }
    }
  }
}

extension AdvancedCommerceTransactionItem: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case sku, description, displayName, offer, price, refunds, revocationDate
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object; members that it does not know are passed over.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .sku: sku = try json.readOrNull()
      case .description: description = try json.readOrNull()
      case .displayName: displayName = try json.readOrNull()
      case .offer: offer = try json.readOrNull()
      case .price: price = try json.readOrNull()
      case .refunds: refunds = try json.readOrNull()
      case .revocationDate: revocationDate = try json.millisecondsOrNull()
      }
    }
  }
}

extension AdvancedCommerceRenewalInfo: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case consistencyToken, descriptors, items, period, requestReferenceId, taxCode
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object; members that it does not know are passed over.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .consistencyToken: consistencyToken = try json.readOrNull()
      case .descriptors: descriptors = try json.readOrNull()
      case .items: items = try json.readOrNull()
      case .period: period = try json.readOrNull()
      case .requestReferenceId: requestReferenceId = try json.readOrNull()
      case .taxCode: taxCode = try json.readOrNull()
      }
    }
  }
}

extension AdvancedCommerceRenewalItem: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case sku, description, displayName, offer, price, priceIncreaseInfo
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object; members that it does not know are passed over.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .sku: sku = try json.readOrNull()
      case .description: description = try json.readOrNull()
      case .displayName: displayName = try json.readOrNull()
      case .offer: offer = try json.readOrNull()
      case .price: price = try json.readOrNull()
      case .priceIncreaseInfo: priceIncreaseInfo = try json.readOrNull()
      }
    }
  }
}

extension AdvancedCommerceDescriptors: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case description, displayName
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object; members that it does not know are passed over.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .description: description = try json.readOrNull()
      case .displayName: displayName = try json.readOrNull()
      }
    }
  }
}

extension AdvancedCommerceOffer: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case period, periodCount, price, reason
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object; members that it does not know are passed over.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .period: period = try json.readOrNull()
      case .periodCount: periodCount = try json.readOrNull()
      case .price: price = try json.readOrNull()
      case .reason: reason = try json.readOrNull()
      }
    }
  }
}

extension AdvancedCommerceRefund: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case refundAmount, refundDate, refundReason, refundType
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object; members that it does not know are passed over.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .refundAmount: refundAmount = try json.readOrNull()
      case .refundDate: refundDate = try json.millisecondsOrNull()
      case .refundReason: refundReason = try json.readOrNull()
      case .refundType: refundType = try json.readOrNull()
      }
    }
  }
}

extension AdvancedCommercePriceIncreaseInfo: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case dependentSKUs, price, status
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object; members that it does not know are passed over.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .dependentSKUs: dependentSKUs = try json.readOrNull()
      case .price: price = try json.readOrNull()
      case .status: status = try json.readOrNull()
      }
    }
  }
}
