-- What load-million leaves out, so that each list has rows and none has many: renewals, failed charges, customers who
-- cancelled, pending price increases, second purchases, refund requests, sandbox purchases, purchases without owner,
-- refused requests, claims, old proofs, waiting notifications, and one customer with a long history.
SET synchronous_commit = off;
SET work_mem = '64MB';

CREATE TEMPORARY TABLE made AS
SELECT original_transaction_id AS made_id, (original_transaction_id::bigint - 1000000000000000) / 10 AS g, expiry_date AS ends_at,
  expiry_date > now() AS runs, revoked_at IS NOT NULL AS is_refunded
FROM subscriptions;
CREATE UNIQUE INDEX ON made (made_id);
ANALYZE made;

UPDATE subscriptions s SET phase_starts = ARRAY[NULL, ends_at, ends_at + interval '60 days'],
  phase_statuses = '{active,expired,expired}', phase_store_statuses = '{active,billingRetry,expired}',
  store_status = 'billingRetry', auto_renew_enabled = true, renews_as = product_id, next_change_at = ends_at + interval '60 days'
FROM made WHERE made_id = original_transaction_id AND NOT runs AND NOT is_refunded AND g % 50 = 7 AND ends_at > now() - interval '60 days';
-- One running customer in 500 cancelled: a list of a rare state reads the most.
UPDATE subscriptions s SET auto_renew_enabled = false, renews_as = NULL
FROM made WHERE made_id = original_transaction_id AND runs AND NOT is_refunded AND g % 500 = 3;
UPDATE subscriptions s SET user_id = NULL, device_id = NULL, owned_because = NULL
FROM made WHERE made_id = original_transaction_id AND runs AND NOT is_refunded AND g % 2000 = 11;
UPDATE subscriptions s SET environment = 'Sandbox'
FROM made WHERE made_id = original_transaction_id AND g % 200 = 9;
-- The second purchase of a customer.
UPDATE subscriptions s SET user_id = former.user_id, device_id = former.device_id
FROM made m, subscriptions former
WHERE m.made_id = s.original_transaction_id AND m.runs AND NOT m.is_refunded AND m.g % 2000 = 25
  AND former.original_transaction_id = (m.made_id::bigint - 40)::text AND former.expiry_date > now();
UPDATE subscriptions s SET old_proof_due_at = now() + interval '1 day' + g % 1000 * interval '1 second', old_proof_marked_at = now() - interval '1 day'
FROM made WHERE made_id = original_transaction_id AND g % 50 = 21;

INSERT INTO renewals (original_transaction_id, environment, product_id, renews_as, will_auto_renew, is_in_billing_retry,
  expiration_intent, renewal_date, signed_at, other_claims)
SELECT s.original_transaction_id, s.environment, s.product_id, s.renews_as, s.auto_renew_enabled,
  s.store_status = 'billingRetry', CASE WHEN s.store_status = 'billingRetry' THEN 2 WHEN NOT s.auto_renew_enabled THEN 1 END,
  s.expiry_date, s.signed_at, jsonb_build_object('renewalPrice', 4990, 'currency', 'USD')
    || CASE WHEN g % 2000 = 17 AND runs THEN '{"priceIncreaseStatus": 0}'::jsonb ELSE '{}' END
FROM made JOIN subscriptions s ON s.original_transaction_id = made_id
ON CONFLICT DO NOTHING;

INSERT INTO store_calls (kind, key, bundle_id, environment, original_transaction_id, transaction_id, request_reason, asked_at,
  deadline, attempts, next_attempt_at, settled_at, outcome)
SELECT 'consumption', made_id, bundle_id, 'Production', made_id, transaction_id, 'UNINTENDED_PURCHASE', now() - g % 12 * interval '1 hour',
  now() + (12 - g % 12) * interval '1 hour', 1, now() + interval '1 hour',
  CASE WHEN g % 20000 = 1 THEN now() END, CASE WHEN g % 20000 = 1 THEN 'refused' END
FROM made JOIN subscriptions ON original_transaction_id = made_id WHERE g % 1000 = 1;

INSERT INTO client_writes (table_name, user_id, original_transaction_id, product_id, mode, next_attempt_at)
SELECT 'profiles', md5('claimer' || g)::uuid, g::text, 'com.swiftclimb.premium.monthly', 'report', now() + interval '1 day' + g * interval '1 second'
FROM generate_series(1, 20000) AS g;

INSERT INTO refused_attempts (at, bundle_id, route, user_id, transaction_id, code, request_id, address_prefix)
SELECT now() - g * interval '12 seconds', 'com.swiftclimb.app', 'POST /api/v1/validate', md5('user' || g * 2)::uuid,
  (1000000000000000 + g * 10)::text, 'transaction_claimed', md5('request' || g), '192.0.2.0/24'
FROM generate_series(1, 200000) AS g;

INSERT INTO notifications (notification_uuid, type, bundle_id, environment, original_transaction_id, signed_at, received_at,
  outcome, failure, envelope_header, envelope_claims, envelope_signature)
SELECT md5('waits' || g)::uuid, 'DID_RENEW', 'com.swiftclimb.app', 'Production', (1000000000000000 + g * 10)::text,
  now() - g * interval '1 second', now() - g * interval '1 second', 'unknown_app', 'the app is unknown',
  (SELECT min(id) FROM jws_headers), '{}', '\x00'
FROM generate_series(1, 20000) AS g;

-- The user of purchase 2 has twelve purchases, five years of weeks, 60 grants and 500 notes. The device of purchase 1 has 25
-- children.
UPDATE subscriptions s SET user_id = md5('user2')::uuid
WHERE original_transaction_id IN (SELECT (1000000000000020 + n * 20)::text FROM generate_series(1, 11) AS n);
INSERT INTO notifications (notification_uuid, type, bundle_id, environment, original_transaction_id, signed_at, received_at,
  processed_at, outcome, envelope_header, envelope_claims, envelope_signature)
SELECT md5('long' || g)::uuid, 'DID_RENEW', 'com.swiftclimb.app', 'Production', (1000000000000020 + g % 12 * 20)::text,
  now() - g * interval '84 hours', now() - g * interval '84 hours', now(), 'applied', (SELECT min(id) FROM jws_headers), '{}', '\x00'
FROM generate_series(1, 520) AS g;
INSERT INTO transactions (transaction_id, original_transaction_id, bundle_id, environment, product_id, kind, ownership,
  purchase_date, original_purchase_date, expiry_date, is_upgraded, price_milliunits, currency, signed_at)
SELECT (900000000000000 + g)::text, (1000000000000020 + g % 12 * 20)::text, 'com.swiftclimb.app', 'Production',
  'com.swiftclimb.premium.monthly', 'Auto-Renewable Subscription', 'PURCHASED', now() - g * interval '7 days',
  now() - interval '5 years', now() - (g - 1) * interval '7 days', false, 4990, 'USD', now() - g * interval '7 days'
FROM generate_series(1, 260) AS g;
INSERT INTO grants (bundle_id, user_id, tier, starts_at, ends_at, reason, granted_by, followed_until)
SELECT 'com.swiftclimb.app', md5('user2')::uuid, 'premium', now() - g * interval '1 day', now() - (g - 1) * interval '1 day',
  'ticket ' || g, 'ada', now()
FROM generate_series(1, 60) AS g;
INSERT INTO support_actions (at, action, bundle_id, to_customer, customer_kind, by, actor, reason)
SELECT now() - g * interval '1 hour', 'note', 'com.swiftclimb.app', md5('user2')::uuid::text, 'user', 'ada', 'operator', 'note ' || g
FROM generate_series(1, 500) AS g;
INSERT INTO devices (bundle_id, device_id, child_device_id, name, paired_at)
SELECT 'com.screentimerewards', upper(md5('device1')::uuid::text), upper(md5('long child' || g)::uuid::text),
  'Emma''s phone ' || g, now() - g * interval '1 day'
FROM generate_series(1, 25) AS g;
