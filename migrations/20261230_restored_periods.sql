-- A restored purchase cost nothing: `support_transactions` gives its transaction no price and the event `restore`.
--
-- Apple gives a paid period of a subscription another transaction id when the customer restores it on a new device, with
-- the same dates and the same price, and a restored non-consumable has a transaction of its own too. Each was a further
-- purchase or renewal with a price in the timeline and in `total_paid`.
CREATE OR REPLACE VIEW public.support_transactions AS
SELECT t.transaction_id, t.original_transaction_id, t.bundle_id, t.environment, t.product_id, t.kind, t.ownership,
  CASE WHEN restored.is_so THEN 'restore' WHEN t.transaction_id = t.original_transaction_id
    OR t.kind <> 'Auto-Renewable Subscription'
    OR t.other_claims ->> 'transactionReason' = 'PURCHASE' THEN 'purchase' ELSE 'renewal' END AS event,
  t.purchase_date, t.original_purchase_date, t.expiry_date, t.revoked_at, t.is_upgraded,
  CASE WHEN t.ownership <> 'FAMILY_SHARED' AND NOT restored.is_so THEN
    round(t.price_milliunits * 0.001, CASE WHEN t.price_milliunits % 10 = 0 THEN 2 ELSE 3 END) END AS price,
  t.currency,
  -- The percentage is in thousandths of a percent. A refund may be signed on several transactions of a restored purchase.
  CASE WHEN t.revoked_at IS NOT NULL AND t.ownership <> 'FAMILY_SHARED' AND NOT (restored.is_so AND EXISTS (
      SELECT FROM receiptd.transactions other
      WHERE other.original_transaction_id = t.original_transaction_id AND other.revoked_at IS NOT NULL
        AND CASE WHEN t.kind = 'Auto-Renewable Subscription'
          THEN other.purchase_date = t.purchase_date AND other.product_id = t.product_id
            AND other.transaction_id < t.transaction_id
          ELSE other.transaction_id = t.original_transaction_id END))
    THEN round(t.price_milliunits * 0.001 * CASE
      WHEN jsonb_typeof(t.other_claims -> 'revocationPercentage') = 'number'
        THEN least(greatest((t.other_claims ->> 'revocationPercentage')::numeric, 0), 100000) / 100000
      ELSE 1 END, CASE WHEN t.price_milliunits % 10 = 0 THEN 2 ELSE 3 END) END AS refunded,
  CASE WHEN t.other_claims ? 'offerType' THEN
    CASE t.other_claims ->> 'offerType' WHEN '1' THEN 'introductory offer' WHEN '2' THEN 'promotional offer'
      WHEN '3' THEN 'offer code' WHEN '4' THEN 'win-back offer' ELSE 'another offer' END
    || coalesce(' ' || (t.other_claims ->> 'offerIdentifier'), '')
    || coalesce(' (' || lower(replace(t.other_claims ->> 'offerDiscountType', '_', ' ')) || ')', '') END AS offer,
  t.other_claims ->> 'storefront' AS storefront,
  t.signed_at, t.first_seen_at,
  -- The notification about this very transaction.
  coalesce((
    SELECT max(n.source) FROM receiptd.notifications n
    WHERE n.original_transaction_id = t.original_transaction_id
      AND substring(n.transaction_claims FROM '"transactionId" *: *"([^"]*)"') = t.transaction_id), 'proof') AS source,
  CASE WHEN t.revoked_at IS NOT NULL THEN coalesce((
    SELECT max(n.source) FROM receiptd.notifications n
    WHERE n.original_transaction_id = t.original_transaction_id
      AND n.type IN ('REFUND', 'REVOKE')
      AND substring(n.transaction_claims FROM '"transactionId" *: *"([^"]*)"') = t.transaction_id), 'proof')
  END AS revocation_source
FROM receiptd.transactions t
CROSS JOIN LATERAL (
  -- PaidTransaction.isRestored in the server.
  SELECT CASE WHEN t.kind = 'Non-Consumable' AND t.transaction_id <> t.original_transaction_id THEN NOT EXISTS (
      SELECT FROM receiptd.transactions r
      WHERE r.original_transaction_id = t.original_transaction_id AND r.revoked_at <= t.purchase_date
        AND NOT EXISTS (
          SELECT FROM receiptd.transactions again
          WHERE again.original_transaction_id = t.original_transaction_id
            AND again.purchase_date >= r.revoked_at
            AND (again.purchase_date, again.transaction_id) < (t.purchase_date, t.transaction_id)))
    WHEN t.kind = 'Auto-Renewable Subscription' THEN EXISTS (
      SELECT FROM receiptd.transactions copy
      WHERE copy.original_transaction_id = t.original_transaction_id AND copy.purchase_date = t.purchase_date
        AND copy.product_id = t.product_id AND copy.ownership = t.ownership AND copy.kind = t.kind
        AND copy.transaction_id < t.transaction_id)
    ELSE false END AS is_so
) AS restored;
COMMENT ON COLUMN public.support_transactions.event IS 'purchase (also a change of product, or a new start after an end), renewal, or restore: a further transaction of a purchase or period that was restored on another device.';
COMMENT ON COLUMN public.support_transactions.price IS 'The configured price in the currency''s unit; not the proceeds. NULL for a family member and for a restore, which cost nothing.';
COMMENT ON COLUMN public.support_transactions.refunded IS 'The refunded part of the price. NULL: nothing was refunded, or another transaction of the same period has it.';

-- A refund may be signed on a restore alone, which has no price. The definition is long, and only the subquery that adds
-- changes.
DO $$
DECLARE
  former CONSTANT text := pg_get_viewdef('public.support_subscriptions'::regclass);
  changed CONSTANT text := regexp_replace(former, 'SELECT t\.currency,.*?GROUP BY t\.currency',
    'SELECT t.currency, sum(coalesce(t.price, 0) - coalesce(t.refunded, 0)) AS paid
      FROM public.support_transactions t
      WHERE t.original_transaction_id = s.original_transaction_id AND t.ownership = ''PURCHASED''
        AND t.environment = ''Production'' AND t.currency IS NOT NULL AND (t.price > 0 OR t.refunded > 0)
      GROUP BY t.currency');
BEGIN
  IF former = changed THEN
    RAISE EXCEPTION 'support_subscriptions has another definition than receiptd gave it';
  END IF;
  EXECUTE 'CREATE OR REPLACE VIEW public.support_subscriptions AS ' || changed;
END
$$;

-- A view that is replaced loses its option `security_invoker`.
-- migrate: new transaction
SELECT public.receiptd_set_rights('support_transactions');

-- migrate: new transaction
SELECT public.receiptd_set_rights('support_subscriptions');

-- migrate: new transaction
SELECT public.receiptd_set_common_rights();
