-- Support: people and the actions of support staff, refused requests, orders, and the views that support reads.

CREATE TABLE public.people (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  name_key text NOT NULL UNIQUE,
  role text NOT NULL CHECK (role IN ('numbers', 'agent', 'lead')),
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  last_used_at timestamptz,
  removed_at timestamptz,
  removed_by text,
  CHECK ((removed_at IS NULL) = (removed_by IS NULL))
);
COMMENT ON TABLE public.people IS 'The people who sign in for support, with a token of their own. receiptd people add, list and remove. Rows are never deleted, because records name them.';
COMMENT ON COLUMN public.people.id IS 'The person''s number, in support_actions.person_id.';
COMMENT ON COLUMN public.people.name IS 'The name in every record.';
COMMENT ON COLUMN public.people.name_key IS 'The name in lower case and composed form (NFC): two names do not differ by letter case alone.';
COMMENT ON COLUMN public.people.role IS 'numbers: the figures and no customer data. agent: customers, short grants and trials. lead: everything.';
COMMENT ON COLUMN public.people.created_at IS 'When the person was added, the last time if the person was removed between.';
COMMENT ON COLUMN public.people.created_by IS 'The person, machine or operator that did it.';
COMMENT ON COLUMN public.people.last_used_at IS 'When the token was last used, to the hour. NULL: not since the person was added.';
COMMENT ON COLUMN public.people.removed_at IS 'When the person was removed; the token is gone since. NULL: the person can sign in.';
COMMENT ON COLUMN public.people.removed_by IS 'The person, machine or operator that did it.';

CREATE TABLE public.people_tokens (
  person_id bigint PRIMARY KEY REFERENCES public.people (id),
  token_hash bytea NOT NULL UNIQUE
);
COMMENT ON TABLE public.people_tokens IS 'The tokens of people who can sign in. For the server''s role only.';
COMMENT ON COLUMN public.people_tokens.person_id IS 'The person.';
COMMENT ON COLUMN public.people_tokens.token_hash IS 'SHA-256 of the token. The token has 256 random bits, so its hash needs neither salt nor stretching.';

CREATE TABLE public.support_actions (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now(),
  action text NOT NULL,
  bundle_id text,
  original_transaction_id text,
  from_customer text,
  to_customer text,
  customer text GENERATED ALWAYS AS (coalesce(to_customer, from_customer)) STORED,
  customer_kind text,
  by text NOT NULL,
  actor text NOT NULL DEFAULT 'receiptd' CHECK (actor IN ('person', 'machine', 'operator', 'receiptd')),
  person_id bigint REFERENCES public.people (id),
  reason text NOT NULL,
  details jsonb,
  CHECK ((actor = 'person') = (person_id IS NOT NULL))
);
CREATE INDEX support_actions_original_transaction_id_idx
  ON public.support_actions (original_transaction_id) WHERE original_transaction_id IS NOT NULL;
CREATE INDEX support_actions_from_customer_idx
  ON public.support_actions (from_customer) WHERE from_customer IS NOT NULL;
CREATE INDEX support_actions_to_customer_idx
  ON public.support_actions (to_customer) WHERE to_customer IS NOT NULL;
-- The columns user_id and device_id of support_timeline, once for to_customer and once for from_customer.
CREATE INDEX support_actions_to_user_idx ON public.support_actions ((
  CASE WHEN customer_kind = 'user' OR customer_kind IS NULL AND to_customer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN to_customer::uuid END)) WHERE to_customer IS NOT NULL;
CREATE INDEX support_actions_to_device_idx ON public.support_actions ((
  CASE WHEN customer_kind = 'device' OR customer_kind IS NULL AND to_customer !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN to_customer END)) WHERE to_customer IS NOT NULL;
CREATE INDEX support_actions_from_user_idx ON public.support_actions ((
  CASE WHEN customer_kind = 'user' OR customer_kind IS NULL AND from_customer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN from_customer::uuid END)) WHERE from_customer IS NOT NULL;
CREATE INDEX support_actions_from_device_idx ON public.support_actions ((
  CASE WHEN customer_kind = 'device' OR customer_kind IS NULL AND from_customer !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN from_customer END)) WHERE from_customer IS NOT NULL;
-- A server that writes refused requests reads the last erasure.
CREATE INDEX support_actions_erasures_idx ON public.support_actions (at) WHERE action = 'erase-customer';
COMMENT ON TABLE public.support_actions IS 'Actions of people, and of the app''s own policies, on customers: never deleted, and never changed but for the identity of an erased customer.';
COMMENT ON COLUMN public.support_actions.id IS 'In the order in which the actions were done.';
COMMENT ON COLUMN public.support_actions.at IS 'When it was done.';
COMMENT ON COLUMN public.support_actions.action IS 'The action: transfer, grant, revoke-grant, extend-trial, free-access, replay, ...';
COMMENT ON COLUMN public.support_actions.bundle_id IS 'The app.';
COMMENT ON COLUMN public.support_actions.original_transaction_id IS 'The subscription that the action changed.';
COMMENT ON COLUMN public.support_actions.from_customer IS 'The user or device that lost something.';
COMMENT ON COLUMN public.support_actions.to_customer IS 'The user or device that gained something.';
COMMENT ON COLUMN public.support_actions.customer IS 'The customer of the action: the one that gained something, else the one that lost something.';
COMMENT ON COLUMN public.support_actions.customer_kind IS 'The kind of from_customer and to_customer: user or device. NULL: there is neither, or the kind is unknown and a UUID is a user.';
COMMENT ON COLUMN public.support_actions.by IS 'The name of the actor: the person''s name in people; machine, or machine for <a name that the caller gave>; the operator''s name; or the rule of receiptd.';
COMMENT ON COLUMN public.support_actions.actor IS 'How the actor was known. person: by a token of their own. machine: by SUPPORT_TOKEN. operator: a command without a token, with the rights of the database''s role; the name is the operator''s own word. receiptd: a rule of receiptd.';
COMMENT ON COLUMN public.support_actions.person_id IS 'The person, for actor person.';
COMMENT ON COLUMN public.support_actions.reason IS 'The reason that the person gave. (erased): the customer was erased.';
COMMENT ON COLUMN public.support_actions.details IS 'Further details.';

-- Any client can send requests that are refused, so a server keeps a limited number of each address and day.
CREATE TABLE public.refused_attempts (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL,
  bundle_id text,
  route text NOT NULL,
  user_id uuid,
  device_id text,
  transaction_id text,
  code text NOT NULL,
  request_id text NOT NULL,
  address_prefix text NOT NULL
);
CREATE INDEX refused_attempts_at_idx ON public.refused_attempts (at);
CREATE INDEX refused_attempts_user_id_idx ON public.refused_attempts (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX refused_attempts_device_id_idx ON public.refused_attempts (device_id) WHERE device_id IS NOT NULL;
CREATE INDEX refused_attempts_transaction_id_idx
  ON public.refused_attempts (transaction_id) WHERE transaction_id IS NOT NULL;
CREATE INDEX refused_attempts_request_id_idx ON public.refused_attempts (request_id);
CREATE INDEX refused_attempts_address_prefix_idx ON public.refused_attempts (address_prefix, at);
COMMENT ON TABLE public.refused_attempts IS 'Requests of clients about a customer that were answered with 4xx, of the last 30 days. What they name is unproven: any client can name any customer. A limited number of each address and day is kept, so a row may be missing.';
COMMENT ON COLUMN public.refused_attempts.id IS 'The row''s own id.';
COMMENT ON COLUMN public.refused_attempts.at IS 'When it was refused.';
COMMENT ON COLUMN public.refused_attempts.bundle_id IS 'The app. NULL: the request did not tell.';
COMMENT ON COLUMN public.refused_attempts.route IS 'The method and the pattern of the path.';
COMMENT ON COLUMN public.refused_attempts.user_id IS 'The user in the path or in the access token, which may be invalid. NULL also around the erasure of any customer.';
COMMENT ON COLUMN public.refused_attempts.device_id IS 'The device that the request named.';
COMMENT ON COLUMN public.refused_attempts.transaction_id IS 'The transaction that the request named, or that the signed transaction named, whose signature may be invalid.';
COMMENT ON COLUMN public.refused_attempts.code IS 'The code of the error.';
COMMENT ON COLUMN public.refused_attempts.request_id IS 'The requestID of the error message.';
COMMENT ON COLUMN public.refused_attempts.address_prefix IS 'The network of the client: the first 24 bits of an IPv4 address, the first 48 of an IPv6 address.';

CREATE TABLE public.store_orders (
  order_id text NOT NULL,
  transaction_id text NOT NULL,
  original_transaction_id text NOT NULL,
  bundle_id text NOT NULL,
  environment text NOT NULL,
  looked_up_at timestamptz NOT NULL,
  PRIMARY KEY (order_id, transaction_id)
);
COMMENT ON TABLE public.store_orders IS 'Orders in the App Store that support searched for, and their transactions.';
COMMENT ON COLUMN public.store_orders.order_id IS 'The order id in Apple''s e-mail to the customer.';
COMMENT ON COLUMN public.store_orders.transaction_id IS 'A transaction of the order.';
COMMENT ON COLUMN public.store_orders.original_transaction_id IS 'The purchase of that transaction.';
COMMENT ON COLUMN public.store_orders.bundle_id IS 'The app.';
COMMENT ON COLUMN public.store_orders.environment IS 'Production or Sandbox.';
COMMENT ON COLUMN public.store_orders.looked_up_at IS 'When the App Store was asked.';

CREATE VIEW public.support_transactions AS
SELECT t.transaction_id, t.original_transaction_id, t.bundle_id, t.environment, t.product_id, t.kind, t.ownership,
  CASE WHEN t.transaction_id = t.original_transaction_id OR t.kind <> 'Auto-Renewable Subscription'
    OR t.other_claims ->> 'transactionReason' = 'PURCHASE' THEN 'purchase' ELSE 'renewal' END AS event,
  t.purchase_date, t.original_purchase_date, t.expiry_date, t.revoked_at, t.is_upgraded,
  CASE WHEN t.ownership <> 'FAMILY_SHARED' THEN
    round(t.price_milliunits * 0.001, CASE WHEN t.price_milliunits % 10 = 0 THEN 2 ELSE 3 END) END AS price,
  t.currency,
  -- The percentage is in thousandths of a percent.
  CASE WHEN t.revoked_at IS NOT NULL AND t.ownership <> 'FAMILY_SHARED' THEN round(t.price_milliunits * 0.001 * CASE
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
    SELECT max(n.source) FROM public.notifications n
    WHERE n.original_transaction_id = t.original_transaction_id
      AND substring(n.transaction_claims FROM '"transactionId" *: *"([^"]*)"') = t.transaction_id), 'proof') AS source,
  CASE WHEN t.revoked_at IS NOT NULL THEN coalesce((
    SELECT max(n.source) FROM public.notifications n
    WHERE n.original_transaction_id = t.original_transaction_id
      AND n.type IN ('REFUND', 'REVOKE')
      AND substring(n.transaction_claims FROM '"transactionId" *: *"([^"]*)"') = t.transaction_id), 'proof')
  END AS revocation_source
FROM public.transactions t;
COMMENT ON VIEW public.support_transactions IS 'transactions, with price, refund and offer in words: filter by transaction_id or original_transaction_id.';
COMMENT ON COLUMN public.support_transactions.event IS 'purchase (also a change of product, or a new start after an end) or renewal.';
COMMENT ON COLUMN public.support_transactions.price IS 'The configured price in the currency''s unit; not the proceeds. NULL for a family member, who pays nothing.';
COMMENT ON COLUMN public.support_transactions.currency IS 'ISO 4217.';
COMMENT ON COLUMN public.support_transactions.refunded IS 'The refunded part of the price. NULL: nothing was refunded.';
COMMENT ON COLUMN public.support_transactions.offer IS 'The offer of the period. NULL: there is none.';
COMMENT ON COLUMN public.support_transactions.storefront IS 'The country of the App Store (ISO 3166-1 alpha-3).';
COMMENT ON COLUMN public.support_transactions.source IS 'How receiptd learned it: webhook (a notification), history (a notification that never arrived, found in the App Store''s history), or proof (signed data of a client, or an answer of the App Store).';

COMMENT ON COLUMN public.support_transactions.revocation_source IS 'How receiptd learned of the refund or the revocation, in the words of source. NULL: there is none.';

CREATE VIEW public.support_subscriptions AS
SELECT
  s.bundle_id,
  s.user_id,
  s.device_id,
  s.original_transaction_id,
  s.transaction_id,
  CASE WHEN change.is_done THEN s.upcoming_product_id ELSE s.product_id END AS product_id,
  CASE WHEN change.is_done THEN s.upcoming_tier ELSE s.tier END AS tier,
  -- A row from before receiptd has no phases.
  coalesce(s.phase_statuses[phase.n], s.status) AS status,
  s.phase_store_statuses[phase.n] AS store_status,
  coalesce(s.is_counted AND s.phase_statuses[phase.n] IN ('active', 'grace'), false) AS has_access,
  -- Once Apple's billing grace is over, the renewal info no longer has its end; the notification of the failed charge has.
  CASE WHEN s.is_counted THEN greatest(phase.access_ends_at, (
    SELECT max(grace.ends_at) FROM public.notifications n
    CROSS JOIN LATERAL (SELECT to_timestamp(
      substring(n.renewal_claims FROM '"gracePeriodExpiresDate" *: *([0-9]+)')::numeric::double precision / 1000) AS ends_at
    ) AS grace
    WHERE phase.access_ends_at <= now() AND s.revoked_at IS NULL AND n.original_transaction_id = s.original_transaction_id
      AND n.subtype = 'GRACE_PERIOD' AND n.signed_at >= s.expiry_date - interval '2 days' AND grace.ends_at <= now()))
  END AS access_ends_at,
  s.purchase_date,
  s.expiry_date,
  s.grace_expires_at,
  s.revoked_at,
  s.auto_renew_enabled,
  s.renews_as,
  s.ownership,
  s.owned_because,
  s.environment,
  CASE WHEN s.ownership IS DISTINCT FROM 'FAMILY_SHARED' THEN round(s.price_milliunits::numeric * 0.001,
    CASE WHEN s.price_milliunits::numeric % 10 = 0 THEN 2 ELSE 3 END) END AS price,
  s.currency,
  s.last_validated_at,
  s.signed_at,
  s.created_at,
  s.updated_at,
  CASE WHEN NOT change.is_done THEN s.upcoming_product_id END AS upcoming_product_id,
  coalesce(s.is_counted, false) AS is_counted,
  s.taken_from,
  s.erased_at,
  coalesce(latest.original_purchase_date, s.purchase_date) AS first_purchase_date,
  latest.storefront,
  latest.offer,
  coalesce(s.auto_renew_enabled AND s.phase_store_statuses[phase.n] IN ('active', 'billingGrace'), false) AS will_renew,
  CASE WHEN s.auto_renew_enabled AND s.renews_as <> coalesce(s.upcoming_product_id, s.product_id)
    THEN s.renews_as END AS pending_product_id,
  CASE WHEN s.auto_renew_enabled THEN renewal.price END AS renewal_price,
  CASE WHEN s.auto_renew_enabled THEN renewal.currency END AS renewal_currency,
  CASE WHEN s.auto_renew_enabled THEN renewal.offer END AS renewal_offer,
  CASE WHEN s.auto_renew_enabled THEN renewal.price_increase END AS price_increase,
  -- After a recovery a late renewal info may still tell of the failed charge, and it has an earlier end.
  CASE WHEN coalesce(renewal.renewal_date >= s.expiry_date, true) THEN
    CASE renewal.expiration_intent WHEN 1 THEN 'cancelled by the customer' WHEN 2 THEN 'not paid'
      WHEN 3 THEN 'price increase not accepted' WHEN 4 THEN 'product not for sale' WHEN 5 THEN 'other' END
  END AS end_reason,
  (SELECT jsonb_object_agg(money.currency, money.paid) FROM (
    SELECT t.currency, sum(t.price - coalesce(t.refunded, 0)) AS paid
    FROM public.support_transactions t
    WHERE t.original_transaction_id = s.original_transaction_id AND t.ownership = 'PURCHASED'
      AND t.environment = 'Production' AND t.currency IS NOT NULL AND t.price > 0
    GROUP BY t.currency) AS money) AS total_paid
FROM public.subscriptions s
-- Joins on unique columns: a query that uses none of their columns does not run them.
LEFT JOIN public.support_transactions latest ON latest.transaction_id = s.transaction_id
-- A renewal info from before the current period says nothing of its end; see `SubscriptionFacts.renewalOfCurrentPeriod`.
LEFT JOIN (
  SELECT original_transaction_id, renewal_date, signed_at, expiration_intent,
    round((other_claims ->> 'renewalPrice')::numeric * 0.001,
      CASE WHEN (other_claims ->> 'renewalPrice')::numeric % 10 = 0 THEN 2 ELSE 3 END) AS price,
    other_claims ->> 'currency' AS currency,
    CASE WHEN other_claims ? 'offerType' THEN
      CASE other_claims ->> 'offerType' WHEN '1' THEN 'introductory offer' WHEN '2' THEN 'promotional offer'
        WHEN '3' THEN 'offer code' WHEN '4' THEN 'win-back offer' ELSE 'another offer' END
      || coalesce(' ' || (other_claims ->> 'offerIdentifier'), '')
      || coalesce(' (' || lower(replace(other_claims ->> 'offerDiscountType', '_', ' ')) || ')', '') END AS offer,
    CASE other_claims ->> 'priceIncreaseStatus' WHEN '0' THEN 'pending' WHEN '1' THEN 'accepted' END AS price_increase
  FROM public.renewals
) AS renewal ON renewal.original_transaction_id = s.original_transaction_id
  AND (renewal.signed_at >= s.purchase_date
    OR renewal.renewal_date = s.expiry_date AND renewal.signed_at >= s.purchase_date - interval '2 days')
CROSS JOIN LATERAL (
  SELECT 1 + count(*) FILTER (WHERE start <= now())::integer AS n,
    min(start) FILTER (WHERE status IN ('expired', 'cancelled')) AS access_ends_at
  FROM unnest(s.phase_starts, s.phase_statuses) AS p (start, status)
) AS phase
CROSS JOIN LATERAL (
  SELECT s.upcoming_product_id IS NOT NULL AND s.purchase_date <= now() AS is_done
) AS change
-- An erased row without facts tells support nothing.
WHERE s.bundle_id IS NOT NULL OR s.erased_at IS NULL;
COMMENT ON VIEW public.support_subscriptions IS 'subscriptions, with both statuses as of now: an end that has passed shows at once.';
COMMENT ON COLUMN public.support_subscriptions.status IS 'The status as of now: active, grace, expired or cancelled. Of a row from before receiptd, which has no bundle_id: the status that the former server wrote last.';
COMMENT ON COLUMN public.support_subscriptions.store_status IS 'The store status as of now: active, billingRetry, billingGrace, expired or revoked.';
COMMENT ON COLUMN public.support_subscriptions.has_access IS 'Whether the subscription gives access now.';
COMMENT ON COLUMN public.support_subscriptions.access_ends_at IS 'When access ends or ended: after the paid time, Apple''s billing grace and the app''s own grace. NULL: access has no end, or there never was any.';
COMMENT ON COLUMN public.support_subscriptions.price IS 'The configured price in the currency''s unit; not the proceeds. NULL for a family member, who pays nothing.';
COMMENT ON COLUMN public.support_subscriptions.currency IS 'ISO 4217.';
COMMENT ON COLUMN public.support_subscriptions.purchase_date IS 'When the current period began. The first purchase: first_purchase_date.';
COMMENT ON COLUMN public.support_subscriptions.signed_at IS 'When Apple last confirmed it: the latest signedDate among its facts.';
COMMENT ON COLUMN public.support_subscriptions.first_purchase_date IS 'When the customer bought it: Apple''s originalPurchaseDate.';
COMMENT ON COLUMN public.support_subscriptions.storefront IS 'The country of the App Store (ISO 3166-1 alpha-3).';
COMMENT ON COLUMN public.support_subscriptions.offer IS 'The offer of the current period. NULL: there is none.';
COMMENT ON COLUMN public.support_subscriptions.will_renew IS 'Whether the App Store will charge again. false once the paid time and billing grace have ended unpaid, also while the App Store retries.';
COMMENT ON COLUMN public.support_subscriptions.pending_product_id IS 'The product to which it changes at the next renewal. NULL: no change is pending.';
COMMENT ON COLUMN public.support_subscriptions.renewal_price IS 'The price of the next period, by the latest renewal info. NULL: Apple has not told it.';
COMMENT ON COLUMN public.support_subscriptions.renewal_currency IS 'The currency of renewal_price.';
COMMENT ON COLUMN public.support_subscriptions.renewal_offer IS 'The offer of the next period. NULL: there is none.';
COMMENT ON COLUMN public.support_subscriptions.price_increase IS 'pending: the customer has not agreed to a higher price. accepted: the customer agreed, or was told and need not agree. NULL: there is no price increase.';
COMMENT ON COLUMN public.support_subscriptions.end_reason IS 'Why it ended or will end, by the App Store. NULL: it renews, or the App Store has not told.';
COMMENT ON COLUMN public.support_subscriptions.total_paid IS 'The prices of all its transactions in Production by currency, minus refunds. What Apple returned for the rest of an upgraded period is counted as paid, because Apple does not tell it. NULL: the customer was never charged.';
COMMENT ON COLUMN public.support_subscriptions.upcoming_product_id IS 'The product of the next period, if the App Store charged it ahead of time and it differs.';
COMMENT ON COLUMN public.support_subscriptions.is_counted IS 'Whether it can give access: the catalog knows its product, and a sandbox purchase belongs to a tester.';
COMMENT ON COLUMN public.support_subscriptions.taken_from IS 'The customer from whom support moved the purchase.';
COMMENT ON COLUMN public.support_subscriptions.erased_at IS 'When the customer that owned it was erased. NULL: never.';

CREATE VIEW public.support_customers AS
SELECT
  held.bundle_id,
  held.user_id,
  held.device_id,
  held.customer,
  coalesce(bool_or(held.has_access) FILTER (WHERE held.source <> 'trial'), false)
    -- A customer with a purchase has no claim to the rest of a trial.
    OR coalesce(bool_or(held.has_access) FILTER (WHERE held.source = 'trial'), false)
      AND NOT coalesce(bool_or(held.is_counted) FILTER (WHERE held.source = 'subscription'), false)
    AS has_access,
  string_agg(DISTINCT held.tier, ', ') FILTER (WHERE held.has_access) AS tiers,
  CASE WHEN coalesce(bool_or(held.is_counted) FILTER (WHERE held.source = 'subscription'), false)
    THEN max(held.access_ends_at) FILTER (WHERE held.has_access AND held.source <> 'trial')
    ELSE max(held.access_ends_at) FILTER (WHERE held.has_access) END AS access_until,
  coalesce(bool_or(held.has_access AND held.access_ends_at IS NULL), false) AS lifetime,
  count(*) FILTER (WHERE held.source = 'subscription') AS subscriptions,
  min(held.first_seen_at) AS first_seen_at,
  max(held.last_validated_at) AS last_validated_at,
  count(*) FILTER (WHERE held.source = 'grant' AND held.has_access) AS open_grants,
  max(held.trial_ends_at) AS trial_ends_at,
  EXISTS (
    SELECT FROM public.free_access f
    WHERE f.bundle_id = held.bundle_id AND f.starts_at <= now() AND (f.ends_at IS NULL OR f.ends_at > now())
  ) AS free_access,
  string_agg(DISTINCT held.source, ', ') FILTER (WHERE held.has_access) AS sources,
  string_agg(DISTINCT held.plan, ', ') FILTER (WHERE held.has_access) AS plans,
  coalesce(bool_or(held.will_renew), false) AS will_renew,
  (SELECT jsonb_object_agg(money.currency, money.paid) FROM (
    SELECT paid.key AS currency, sum(paid.value::numeric) AS paid
    FROM unnest(array_agg(held.total_paid)) AS purchase (total_paid), jsonb_each_text(purchase.total_paid) AS paid
    GROUP BY paid.key) AS money) AS total_paid
FROM (
  SELECT 'subscription' AS source, s.bundle_id, s.user_id, s.device_id,
    coalesce(s.user_id::text, s.device_id) AS customer, s.tier, s.has_access, s.is_counted,
    s.access_ends_at, s.created_at AS first_seen_at, s.last_validated_at, NULL::timestamptz AS trial_ends_at,
    s.product_id || coalesce(' at ' || s.price || ' ' || s.currency, '') AS plan, s.will_renew, s.total_paid
  FROM public.support_subscriptions s
  WHERE s.user_id IS NOT NULL OR s.device_id IS NOT NULL
  UNION ALL
  -- Purchases of another device that shares them. Whether a sandbox purchase counts depends on the device at hand.
  SELECT 'subscription', d.bundle_id, NULL::uuid, d.device_id, d.device_id, s.tier,
    own.is_counted AND s.status IN ('active', 'grace'), own.is_counted,
    CASE WHEN own.is_counted THEN coalesce(s.access_ends_at,
      greatest(s.expiry_date + app.grace_days * interval '24 hours', s.grace_expires_at)) END,
    d.since, d.proved_at, NULL::timestamptz,
    s.product_id || coalesce(' at ' || s.price || ' ' || s.currency, ''), s.will_renew, s.total_paid
  FROM public.purchase_devices d
  JOIN public.support_subscriptions s USING (original_transaction_id)
  JOIN public.configured_apps app ON app.bundle_id = d.bundle_id
  CROSS JOIN LATERAL (
    SELECT s.tier IS NOT NULL AND (s.environment = 'Production' OR app.sandbox_for_everyone
      OR lower(d.device_id) = ANY(app.sandbox_testers)) AS is_counted
  ) AS own
  WHERE NOT d.is_barred AND app.shares_purchases AND s.device_id IS DISTINCT FROM d.device_id
  UNION ALL
  SELECT 'grant', g.bundle_id, g.user_id, g.device_id, coalesce(g.user_id::text, g.device_id), g.tier,
    g.is_counted AND g.revoked_at IS NULL AND g.starts_at <= now() AND (g.ends_at IS NULL OR g.ends_at > now()), true,
    g.next_change_at, g.created_at, NULL::timestamptz, NULL::timestamptz, 'grant of ' || g.tier, false, NULL::jsonb
  FROM public.grants g
  UNION ALL
  SELECT 'trial', t.bundle_id, NULL::uuid, t.device_id, t.device_id, NULL::text,
    own.is_counted AND told.started_at <= now() AND grace.ends_at > now(), true, grace.ends_at, told.started_at,
    NULL::timestamptz, CASE WHEN own.is_counted THEN told.ends_at END, 'trial', false, NULL::jsonb
  FROM public.trials t
  JOIN public.trials told ON told.id = coalesce(t.continues, t.id)
  LEFT JOIN public.configured_apps app ON app.bundle_id = t.bundle_id
  CROSS JOIN LATERAL (
    SELECT t.environment = 'Production' OR coalesce(app.sandbox_for_everyone
      OR lower(t.device_id) = ANY(app.sandbox_testers), false) AS is_counted
  ) AS own
  -- The app's own grace follows the trial. Both stand still during free access: each time of free access that begins
  -- before the end delays the end by its length. An open one counts as if it ended now.
  CROSS JOIN LATERAL (
    SELECT stretch.ends_at FROM (
      SELECT free.starts_at, told.ends_at + interval '1 second' * (
        86400 * coalesce(app.grace_days, 0) + coalesce(sum(free.seconds) OVER (
          ORDER BY free.starts_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) AS ends_at
      FROM (
        SELECT f.starts_at,
          extract(epoch FROM coalesce(f.ends_at, now()) - greatest(f.starts_at, told.started_at)) AS seconds
        FROM public.free_access f
        WHERE f.bundle_id = t.bundle_id AND coalesce(f.ends_at, now()) > told.started_at
        UNION ALL VALUES ('infinity'::timestamptz, 0)
      ) AS free
    ) AS stretch
    WHERE stretch.starts_at >= stretch.ends_at ORDER BY stretch.starts_at LIMIT 1
  ) AS grace
) AS held
GROUP BY held.bundle_id, held.user_id, held.device_id, held.customer;
COMMENT ON VIEW public.support_customers IS 'One row per customer of an app, with purchases, grants and trial as of now.';
COMMENT ON COLUMN public.support_customers.customer IS 'The id of the user or device.';
COMMENT ON COLUMN public.support_customers.has_access IS 'Whether a purchase, a grant or a trial of the customer gives access now. Free access for all customers is in free_access.';
COMMENT ON COLUMN public.support_customers.tiers IS 'The tiers to which the customer has access now.';
COMMENT ON COLUMN public.support_customers.access_until IS 'The latest end of access that the customer has now. NULL with access: see lifetime.';
COMMENT ON COLUMN public.support_customers.lifetime IS 'Whether the customer has access that never ends.';
COMMENT ON COLUMN public.support_customers.subscriptions IS 'How many subscriptions and purchases the customer has, ended ones included.';
COMMENT ON COLUMN public.support_customers.first_seen_at IS 'When receiptd first saw a purchase, grant or trial of the customer.';
COMMENT ON COLUMN public.support_customers.last_validated_at IS 'When a client last proved a purchase of the customer.';
COMMENT ON COLUMN public.support_customers.open_grants IS 'How many grants give access now.';
COMMENT ON COLUMN public.support_customers.trial_ends_at IS 'When the trial ends or ended, extensions included. Times of free access delay the end further, and the app''s own grace follows it: access_until includes both.';
COMMENT ON COLUMN public.support_customers.sources IS 'What gives access now: subscription, grant or trial.';
COMMENT ON COLUMN public.support_customers.plans IS 'The products that give access now, with their prices.';
COMMENT ON COLUMN public.support_customers.will_renew IS 'Whether the App Store will charge for a purchase of the customer again.';
COMMENT ON COLUMN public.support_customers.total_paid IS 'support_subscriptions.total_paid of all purchases, shared ones too. NULL: the customer was never charged.';
COMMENT ON COLUMN public.support_customers.free_access IS 'Whether the app needs no subscription now.';

CREATE VIEW public.support_timeline AS
SELECT t.purchase_date AS at, t.bundle_id, s.user_id, s.device_id, t.original_transaction_id,
  t.event,
  t.product_id || CASE WHEN t.ownership = 'FAMILY_SHARED' THEN ', by Family Sharing' ELSE '' END
    || coalesce(', ' || t.price || ' ' || t.currency, '')
    || coalesce(', ' || t.offer, '')
    || coalesce(', until ' || to_char(t.expiry_date AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC', ', for good')
    || CASE WHEN t.is_upgraded THEN ', replaced by an upgrade' ELSE '' END AS what,
  t.transaction_id AS reference,
  t.transaction_id AS transaction_id,
  t.product_id, t.price, t.currency, t.source
FROM public.support_transactions t
LEFT JOIN public.subscriptions s USING (original_transaction_id)
UNION ALL
SELECT t.revoked_at, t.bundle_id, s.user_id, s.device_id, t.original_transaction_id,
  'revoked', t.product_id || ' of ' || to_char(t.purchase_date AT TIME ZONE 'UTC', 'YYYY-MM-DD')
    || CASE WHEN t.ownership = 'FAMILY_SHARED' THEN ', no longer shared by the family'
      ELSE coalesce(', refund of ' || t.refunded || ' ' || t.currency, '') END
    || CASE WHEN s.transaction_id = t.transaction_id THEN ', access ended' ELSE '' END,
  t.transaction_id, t.transaction_id, t.product_id, -t.refunded, t.currency,
  t.revocation_source
FROM public.support_transactions t
LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE t.revoked_at IS NOT NULL
UNION ALL
SELECT s.access_ends_at, s.bundle_id, s.user_id, s.device_id, s.original_transaction_id,
  'access ended', s.product_id || coalesce(': ' || s.end_reason, ''),
  s.transaction_id, s.transaction_id, s.product_id, NULL::numeric, NULL::text, 'time'
FROM public.support_subscriptions s
WHERE s.revoked_at IS NULL AND s.access_ends_at <= now()
UNION ALL
-- An earlier period that another one followed only after its grace: Apple's billing grace or the app's own grace.
SELECT lapse.at, t.bundle_id, s.user_id, s.device_id, t.original_transaction_id,
  'access ended', t.product_id, t.transaction_id, t.transaction_id, t.product_id, NULL::numeric, NULL::text, 'time'
FROM public.transactions t
JOIN public.subscriptions s USING (original_transaction_id)
LEFT JOIN public.configured_apps app ON app.bundle_id = t.bundle_id
CROSS JOIN LATERAL (
  SELECT greatest(t.expiry_date + coalesce(app.grace_days, 0) * interval '24 hours', max(to_timestamp(
    substring(n.renewal_claims FROM '"gracePeriodExpiresDate" *: *([0-9]+)')::numeric::double precision / 1000))) AS at
  FROM public.notifications n
  WHERE n.original_transaction_id = t.original_transaction_id AND n.subtype = 'GRACE_PERIOD'
    AND n.signed_at BETWEEN t.expiry_date - interval '2 days' AND t.expiry_date + interval '2 days'
) AS lapse
WHERE t.revoked_at IS NULL AND NOT t.is_upgraded AND t.transaction_id <> s.transaction_id
  AND EXISTS (
    SELECT FROM public.transactions later
    WHERE later.original_transaction_id = t.original_transaction_id AND later.purchase_date > lapse.at)
  AND NOT EXISTS (
    SELECT FROM public.transactions next
    WHERE next.original_transaction_id = t.original_transaction_id AND next.transaction_id <> t.transaction_id
      AND next.purchase_date >= t.purchase_date AND next.purchase_date <= lapse.at)
UNION ALL
-- A notification that brought a transaction above is no event of its own.
SELECT n.received_at, n.bundle_id, s.user_id, s.device_id, n.original_transaction_id,
  'notification', n.type || coalesce(' ' || n.subtype, '') || ': ' || n.outcome
    || CASE WHEN n.type = 'DID_CHANGE_RENEWAL_PREF'
      THEN coalesce(', renews as ' || substring(n.renewal_claims FROM '"autoRenewProductId" *: *"([^"]*)"'), '')
    WHEN n.type = 'PRICE_INCREASE'
      THEN coalesce(', ' || regexp_replace(
          (substring(n.renewal_claims FROM '"renewalPrice" *: *([0-9]+)')::numeric * 0.001)::text, '0$', '')
        || coalesce(' ' || substring(n.renewal_claims FROM '"currency" *: *"([^"]*)"'), ''), '')
    WHEN n.type = 'RENEWAL_EXTENDED'
      THEN coalesce(', until ' || to_char(to_timestamp(
          substring(n.transaction_claims FROM '"expiresDate" *: *([0-9]+)')::numeric::double precision / 1000)
        AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC', '')
    ELSE '' END,
  n.notification_uuid::text, NULL::text, NULL::text, NULL::numeric, NULL::text, n.source
FROM public.notifications n
LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE n.processed_at IS NULL OR n.outcome NOT IN ('applied', 'unchanged')
  OR NOT (n.type IN ('SUBSCRIBED', 'DID_RENEW', 'ONE_TIME_CHARGE', 'REFUND', 'REVOKE')
    OR n.type IN ('OFFER_REDEEMED', 'DID_CHANGE_RENEWAL_PREF')
      AND coalesce(n.subtype IN ('INITIAL_BUY', 'RESUBSCRIBE', 'UPGRADE'), false))
UNION ALL
-- A purchase also appears under each device that shares it. Those rows have no original_transaction_id, so that the
-- purchase does not appear twice under its own id.
SELECT t.purchase_date AS at, t.bundle_id, NULL::uuid, d.device_id, NULL::text,
  t.event,
  t.product_id || CASE WHEN t.ownership = 'FAMILY_SHARED' THEN ', by Family Sharing' ELSE '' END
    || coalesce(', ' || t.price || ' ' || t.currency, '')
    || coalesce(', ' || t.offer, '')
    || coalesce(', until ' || to_char(t.expiry_date AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC', ', for good')
    || CASE WHEN t.is_upgraded THEN ', replaced by an upgrade' ELSE '' END || ', shared' AS what,
  t.transaction_id AS reference,
  NULL::text AS transaction_id,
  t.product_id, t.price, t.currency, t.source
FROM public.purchase_devices d
JOIN public.subscriptions s ON s.original_transaction_id = d.original_transaction_id
  AND s.device_id IS DISTINCT FROM d.device_id
JOIN public.support_transactions t ON t.original_transaction_id = d.original_transaction_id
WHERE NOT d.is_barred
UNION ALL
SELECT t.revoked_at, t.bundle_id, NULL::uuid, d.device_id, NULL::text,
  'revoked', t.product_id || ' of ' || to_char(t.purchase_date AT TIME ZONE 'UTC', 'YYYY-MM-DD')
    || CASE WHEN t.ownership = 'FAMILY_SHARED' THEN ', no longer shared by the family'
      ELSE coalesce(', refund of ' || t.refunded || ' ' || t.currency, '') END
    || CASE WHEN s.transaction_id = t.transaction_id THEN ', access ended' ELSE '' END || ', shared',
  t.transaction_id, NULL::text, t.product_id, -t.refunded, t.currency,
  t.revocation_source
FROM public.purchase_devices d
JOIN public.subscriptions s ON s.original_transaction_id = d.original_transaction_id
  AND s.device_id IS DISTINCT FROM d.device_id
JOIN public.support_transactions t ON t.original_transaction_id = d.original_transaction_id
WHERE NOT d.is_barred AND t.revoked_at IS NOT NULL
UNION ALL
SELECT s.access_ends_at, s.bundle_id, NULL::uuid, d.device_id, NULL::text,
  'access ended', s.product_id || coalesce(': ' || s.end_reason, '') || ', shared',
  s.transaction_id, NULL::text, s.product_id, NULL::numeric, NULL::text, 'time'
FROM public.purchase_devices d
JOIN public.support_subscriptions s ON s.original_transaction_id = d.original_transaction_id
  AND s.device_id IS DISTINCT FROM d.device_id
WHERE NOT d.is_barred AND s.revoked_at IS NULL AND s.access_ends_at <= now()
UNION ALL
-- An action appears under the customer that gained something.
SELECT a.at, a.bundle_id,
  CASE WHEN a.customer_kind = 'user' OR a.customer_kind IS NULL AND a.to_customer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN a.to_customer::uuid END,
  CASE WHEN a.customer_kind = 'device' OR a.customer_kind IS NULL AND a.to_customer !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN a.to_customer END,
  a.original_transaction_id, a.action,
  a.by || ': ' || a.reason || CASE
    WHEN a.action = 'refund-preference' THEN coalesce(', prefers ' || (a.details ->> 'prefer'), '')
    WHEN a.action = 'refresh' AND a.details ? 'failures' THEN ', incomplete: the App Store could not be asked'
    ELSE '' END
    || coalesce(' (from ' || a.from_customer || ')', '') || ' (to ' || a.to_customer || ')',
  a.id::text, NULL::text, NULL::text, NULL::numeric, NULL::text, 'support'
FROM public.support_actions a
WHERE a.to_customer IS NOT NULL
UNION ALL
-- And under the customer that lost something, without original_transaction_id: see above.
SELECT a.at, a.bundle_id,
  CASE WHEN a.customer_kind = 'user' OR a.customer_kind IS NULL AND a.from_customer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN a.from_customer::uuid END,
  CASE WHEN a.customer_kind = 'device' OR a.customer_kind IS NULL AND a.from_customer !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    THEN a.from_customer END,
  NULL::text, a.action,
  a.by || ': ' || a.reason || coalesce(' (' || a.original_transaction_id || ')', '')
    || ' (from ' || a.from_customer || ')' || coalesce(' (to ' || a.to_customer || ')', ''),
  a.id::text, NULL::text, NULL::text, NULL::numeric, NULL::text, 'support'
FROM public.support_actions a
WHERE a.from_customer IS NOT NULL AND a.from_customer IS DISTINCT FROM a.to_customer
UNION ALL
SELECT a.at, a.bundle_id, s.user_id, s.device_id, a.original_transaction_id,
  a.action, a.by || ': ' || a.reason || CASE
    WHEN a.action = 'refund-preference' THEN coalesce(', prefers ' || (a.details ->> 'prefer'), '')
    WHEN a.action = 'refresh' AND a.details ? 'failures' THEN ', incomplete: the App Store could not be asked'
    WHEN a.action LIKE 'extend-renewal%' THEN coalesce(', by ' || (a.details ->> 'days') || ' days', '')
      || coalesce(', renews at ' || (a.details ->> 'renewsAt'), '')
    ELSE '' END, a.id::text, NULL::text, NULL::text, NULL::numeric, NULL::text, 'support'
FROM public.support_actions a
LEFT JOIN public.subscriptions s USING (original_transaction_id)
WHERE a.from_customer IS NULL AND a.to_customer IS NULL
UNION ALL
SELECT told.started_at, t.bundle_id, NULL::uuid, t.device_id, NULL::text,
  'trial', 'until ' || to_char(told.ends_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    || CASE WHEN told.extended_days > 0 THEN ', extended by ' || told.extended_days || ' days' ELSE '' END
    || CASE WHEN t.continues IS NOT NULL THEN ', begun on ' || told.device_id ELSE '' END,
  t.id::text, NULL::text, NULL::text, NULL::numeric, NULL::text, 'client'
FROM public.trials t
JOIN public.trials told ON told.id = coalesce(t.continues, t.id)
UNION ALL
SELECT told.ends_at, t.bundle_id, NULL::uuid, t.device_id, NULL::text, 'trial ended',
  CASE WHEN app.grace_days > 0 THEN 'the app''s own grace of ' || app.grace_days || ' days follows' ELSE 'access ended' END,
  t.id::text, NULL::text, NULL::text, NULL::numeric, NULL::text, 'time'
FROM public.trials t
JOIN public.trials told ON told.id = coalesce(t.continues, t.id)
LEFT JOIN public.configured_apps app ON app.bundle_id = t.bundle_id
WHERE told.ends_at <= now()
  -- A purchase ends the trial, and free access delays its end.
  AND NOT EXISTS (
    SELECT FROM public.subscriptions s
    WHERE s.bundle_id = t.bundle_id AND s.device_id = t.device_id AND s.created_at <= told.ends_at)
  AND NOT EXISTS (
    SELECT FROM public.free_access f
    WHERE f.bundle_id = t.bundle_id AND f.starts_at < told.ends_at AND coalesce(f.ends_at > told.started_at, true))
UNION ALL
SELECT g.ends_at, g.bundle_id, g.user_id, g.device_id, NULL::text, 'grant ended', g.tier,
  g.id::text, NULL::text, NULL::text, NULL::numeric, NULL::text, 'time'
FROM public.grants g
WHERE g.ends_at <= now() AND g.revoked_at IS NULL
UNION ALL
SELECT d.paired_at, d.bundle_id, NULL::uuid, d.device_id, NULL::text,
  'paired', d.child_device_id || coalesce(' (' || d.name || ')', ''), d.id::text, NULL::text, NULL::text, NULL::numeric,
  NULL::text, 'client'
FROM public.devices d
UNION ALL
SELECT r.at, r.bundle_id, r.user_id, r.device_id, t.original_transaction_id,
  'refused', r.code || ': ' || r.route || coalesce(', transaction ' || r.transaction_id, ''),
  r.request_id, r.transaction_id, NULL::text, NULL::numeric, NULL::text, 'client'
FROM public.refused_attempts r
LEFT JOIN public.transactions t USING (transaction_id);
COMMENT ON VIEW public.support_timeline IS 'Every event of a customer or purchase: filter by user_id, device_id, original_transaction_id or transaction_id, and order by at.';
COMMENT ON COLUMN public.support_timeline.at IS 'When it happened.';
COMMENT ON COLUMN public.support_timeline.event IS 'purchase (also a change of product or a new start), renewal, revoked, access ended, notification (that brought no transaction), trial, trial ended, grant ended, paired, refused (a client''s request, see refused_attempts), or a support action.';
COMMENT ON COLUMN public.support_timeline.what IS 'A description in words.';
COMMENT ON COLUMN public.support_timeline.reference IS 'The id of the transaction, notification, action, trial, pairing or request.';
COMMENT ON COLUMN public.support_timeline.transaction_id IS 'The transaction, if the event is about one.';
COMMENT ON COLUMN public.support_timeline.product_id IS 'The product of a transaction.';
COMMENT ON COLUMN public.support_timeline.price IS 'The price of a transaction; negative for a refund.';
COMMENT ON COLUMN public.support_timeline.currency IS 'ISO 4217.';
COMMENT ON COLUMN public.support_timeline.source IS 'How receiptd learned it: webhook (a notification), history (a notification that never arrived, found in the App Store''s history), proof (signed data of a client, or an answer of the App Store), support, client, or time.';

CREATE VIEW public.support_outbox AS
SELECT o.id, o.destination, o.bundle_id, o.endpoint, o.customer,
  CASE
    WHEN o.dead_at IS NOT NULL THEN 'dead'
    WHEN o.done_at IS NOT NULL THEN 'delivered'
    WHEN l.disabled_at IS NOT NULL THEN 'disabled'
    WHEN o.claimed_until > now() THEN 'under way'
    ELSE 'waiting'
  END AS state,
  o.created_at, o.attempts,
  CASE WHEN o.done_at IS NULL AND o.dead_at IS NULL AND l.disabled_at IS NULL
    THEN greatest(o.next_attempt_at, l.paused_until) END AS next_attempt_at,
  o.last_error, l.last_error AS place_error, o.done_at, o.dead_at, o.event
FROM (
  SELECT states.*, key AS customer, NULL::text AS event FROM public.outbox AS states
  WHERE destination NOT IN ('event', 'notification')
  UNION ALL
  SELECT events.*, coalesce(e.user_id::text, e.device_id), e.type
  FROM public.outbox AS events JOIN public.lifecycle_events e ON e.id::text = events.key
  WHERE destination = 'event'
  UNION ALL
  SELECT notifications.*, NULL, 'notification ' || key FROM public.outbox AS notifications
  WHERE destination = 'notification'
) AS o
LEFT JOIN public.outbox_destinations l USING (destination, bundle_id, endpoint);
COMMENT ON VIEW public.support_outbox IS 'Deliveries to other systems and tables, by destination and customer: filter by customer, or by done_at IS NULL for open deliveries.';
COMMENT ON COLUMN public.support_outbox.event IS 'The type of a lifecycle event, or the UUID of a forwarded notification. NULL: the delivery sends a customer''s state.';
COMMENT ON COLUMN public.support_outbox.state IS 'waiting, under way, delivered, disabled (the webhook answered 410), or dead (given up; receiptd requeue sends it again).';
COMMENT ON COLUMN public.support_outbox.next_attempt_at IS 'When the next attempt is due.';
COMMENT ON COLUMN public.support_outbox.last_error IS 'The error of the last attempt for this customer.';
COMMENT ON COLUMN public.support_outbox.place_error IS 'The last error of the destination as a whole. NULL: there is none.';

CREATE VIEW public.support_waiting_notifications AS
SELECT outcome AS why, bundle_id, environment, type, subtype, count(*) AS notifications,
  min(received_at) AS oldest, max(received_at) AS newest, failure,
  (array_agg(notification_uuid ORDER BY received_at))[1:10] AS notification_uuids,
  (array_agg(DISTINCT substring(transaction_claims FROM '"productId" *: *"([^"]*)"')))[1:10] AS product_ids
FROM public.notifications
WHERE processed_at IS NULL
GROUP BY 1, 2, 3, 4, 5, 9;
COMMENT ON VIEW public.support_waiting_notifications IS 'Counts of notifications that are kept but could not be processed yet. receiptd processes them again at the next start that can help, or by receiptd replay.';
COMMENT ON COLUMN public.support_waiting_notifications.why IS 'unknown_app, unknown_environment, unknown_type, unknown_product or failed.';
COMMENT ON COLUMN public.support_waiting_notifications.notifications IS 'How many notifications wait.';
COMMENT ON COLUMN public.support_waiting_notifications.oldest IS 'When the first of them was received.';
COMMENT ON COLUMN public.support_waiting_notifications.newest IS 'When the last of them was received.';
COMMENT ON COLUMN public.support_waiting_notifications.notification_uuids IS 'The ten oldest of them, for receiptd replay.';
COMMENT ON COLUMN public.support_waiting_notifications.product_ids IS 'The products of their transactions; NULL among them: one has no transaction.';
COMMENT ON COLUMN public.support_waiting_notifications.failure IS 'For failed: the fault of the notification or of a part of it. NULL: receiptd could not write it, and tries again every hour.';

-- The key of the customers' hashes in the log.
CREATE TABLE public.log_keys (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  key bytea NOT NULL
);
COMMENT ON TABLE public.log_keys IS 'One row: the key with which servers hash customers'' ids in the log, for receiptd customer --log-key. For the server''s role only.';
COMMENT ON COLUMN public.log_keys.is_only IS 'Always true: there is one row.';
COMMENT ON COLUMN public.log_keys.key IS 'The key of HMAC-SHA256; 244 of its 256 bits are random.';
INSERT INTO public.log_keys (key)
VALUES (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));

-- Erasing a customer. `CustomerTables` lists the rule of each table; these functions do what the role that serves may not do
-- by itself.

-- The digest is keyed, because an appTransactionId has few digits. The same account has the same digest, so a trial stays the
-- only one of its Apple Account, and the conversions of trials stay countable.
CREATE FUNCTION public.receiptd_erased_account(account text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF account IS NULL OR account LIKE 'erased:%' THEN
    RETURN account;
  END IF;
  RETURN 'erased:' || encode(sha256((SELECT key FROM public.log_keys) || convert_to(account, 'UTF8')), 'hex');
END
$$;
COMMENT ON FUNCTION public.receiptd_erased_account(text) IS 'The keyed digest that stands for Apple''s appTransactionId of an erased customer.';

-- An Apple Account may have several devices or users of an app. Its number stays as long as one of them is a customer, so that
-- trials, purchases and the proofs of a device still belong together.
CREATE FUNCTION public.receiptd_has_account(app text, account text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (
      SELECT FROM public.trials WHERE bundle_id = app AND app_transaction_id = account AND device_id NOT LIKE 'erased-%')
    OR EXISTS (
      SELECT FROM public.subscriptions
      WHERE app_transaction_id = account AND bundle_id = app AND coalesce(user_id::text, device_id) IS NOT NULL)
$$;
COMMENT ON FUNCTION public.receiptd_has_account(text, text) IS 'Whether a customer that is not erased has an Apple Account of an app (appTransactionId).';

-- Money and terms; no token, no account, no free text. The argument is text because claims are kept as Apple signed them.
CREATE FUNCTION public.receiptd_impersonal_claims(claims text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
    SELECT jsonb_object_agg(claim.key, claim.value) FROM jsonb_each(claims::jsonb) AS claim
    WHERE claim.key IN ('transactionId', 'originalTransactionId', 'bundleId', 'environment', 'productId', 'type',
      'inAppOwnershipType', 'purchaseDate', 'originalPurchaseDate', 'expiresDate', 'revocationDate', 'revocationReason',
      'revocationPercentage', 'revocationType', 'isUpgraded', 'price', 'currency', 'signedDate', 'storefront',
      'storefrontId', 'subscriptionGroupIdentifier', 'transactionReason', 'offerType', 'offerIdentifier',
      'offerDiscountType', 'offerPeriod', 'quantity', 'autoRenewProductId', 'autoRenewStatus',
      'isInBillingRetryPeriod', 'gracePeriodExpiresDate', 'expirationIntent', 'renewalDate', 'renewalPrice',
      'priceIncreaseStatus', 'recentSubscriptionStartDate'));
EXCEPTION WHEN data_exception THEN
  -- Apple's JSON may have U+0000, which jsonb refuses.
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.receiptd_impersonal_claims(text) IS 'The claims of a signed payload that tell nothing of the customer: money, product, dates, country. NULL: none.';

-- Claims are kept as Apple signed them. A notification of which a part does not verify has the signed parts inside of its claims.
CREATE FUNCTION public.receiptd_readable_claims(claims text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT claims || coalesce((
    SELECT string_agg(encode(decode(rpad(code, (length(code) + 3) / 4 * 4, '='), 'base64'), 'escape'), ' ')
    FROM (
      SELECT translate(part[1], '-_', '+/') AS code
      FROM regexp_matches(claims, '"[A-Za-z0-9_-]+[.]([A-Za-z0-9_-]+)[.][A-Za-z0-9_-]*"', 'g') AS part) AS parts
    WHERE length(code) % 4 <> 1), '')
$$;
COMMENT ON FUNCTION public.receiptd_readable_claims(text) IS 'The claims of a signed payload, and after them those of the signed payloads inside of it.';

-- Servers add to support_actions and never change it; this is the one exception. The same call inserts the record of the
-- erasure, so no record changes without a record.
CREATE FUNCTION public.receiptd_erase_actions(
  customer_id text, kind text, bundle_ids text[], purchases text[], pseudonym text, author text, actor text,
  person bigint, explanation text, counts jsonb, instant timestamptz) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  erased bigint;
BEGIN
  IF pseudonym !~ '^(erased-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' OR EXISTS (
    SELECT FROM public.support_actions WHERE from_customer = pseudonym OR to_customer = pseudonym)
  THEN
    RAISE EXCEPTION 'a pseudonym is new and random' USING ERRCODE = '22023';
  END IF;
  UPDATE public.support_actions a SET
    from_customer = CASE WHEN a.from_customer = customer_id THEN pseudonym ELSE a.from_customer END,
    to_customer = CASE WHEN a.to_customer = customer_id THEN pseudonym ELSE a.to_customer END,
    reason = '(erased)', details = NULL
  WHERE a.action <> 'erase-customer'
    AND (a.from_customer = customer_id OR a.to_customer = customer_id OR a.original_transaction_id = ANY (purchases)
      OR strpos(lower(a.reason), lower(customer_id)) > 0 OR strpos(lower(a.details::text), lower(customer_id)) > 0);
  GET DIAGNOSTICS erased = ROW_COUNT;
  INSERT INTO public.support_actions (action, bundle_id, to_customer, customer_kind, by, actor, person_id, reason, details, at)
  SELECT 'erase-customer', app, pseudonym, kind, author, receiptd_erase_actions.actor, person, explanation, counts, instant
  FROM unnest(CASE WHEN cardinality(bundle_ids) = 0 THEN ARRAY[NULL::text] ELSE bundle_ids END) AS app;
  -- The rows of the app's own tables that receiptd added and no client has written since. All others are the app's.
  IF kind = 'user' THEN
    PERFORM public.receiptd_make_room('profiles', customer_id::uuid);
    PERFORM public.receiptd_make_room('user_preferences', customer_id::uuid);
  END IF;
  RETURN erased;
END
$$;
COMMENT ON FUNCTION public.receiptd_erase_actions(text, text, text[], text[], text, text, text, bigint, text, jsonb, timestamptz) IS 'Replaces an erased customer in support_actions, deletes the reasons and details about the customer, deletes the rows that receiptd added to the app''s own tables, and records the erasure. Runs with the owner''s rights, for the role that serves.';
