-- Erasing a customer: which rows of support_actions are the customer's, what happens to the rows of other customers that name
-- the id, and which rows of the app's own tables receiptd added. 20261125_roles.sql has the rights on the functions.
--
-- This file may run again.

-- The triggers on the app's own tables know a row by its table, and do not watch a partition that is written by its own name.
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['profiles', 'user_preferences'] LOOP
    IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('public.' || name) AND relkind = 'p')
      OR EXISTS (SELECT FROM pg_inherits WHERE inhparent = to_regclass('public.' || name))
    THEN
      RAISE EXCEPTION 'the table public.% is partitioned, or other tables inherit from it: receiptd cannot watch who writes its premium status; keep the status in a plain table, see docs/adopting.md', name
        USING ERRCODE = 'feature_not_supported';
    END IF;
  END LOOP;
END
$$;

-- Clients cause rows of receiptd's own rules, in any number. People write the others, and receiptd writes what a person's search
-- for an order repaired. Only these may name a customer in free text or in details: an erasure reads these alone.
CREATE INDEX IF NOT EXISTS support_actions_people_idx ON public.support_actions (id)
  WHERE actor <> 'receiptd' OR action = 'find';

CREATE OR REPLACE FUNCTION public.receiptd_rename_in_text(words text, customer_id text, kind text, pseudonym text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN customer_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
      -- The id of a user has any case. In another case, the id of a device is that of another device.
      THEN regexp_replace(words, '(?<![[:alnum:]_-])' || customer_id || '(?![[:alnum:]_-])', pseudonym,
        CASE kind WHEN 'user' THEN 'gi' ELSE 'g' END)
    -- Any other id is text that a client chose: a word, a date or the number of a ticket.
    ELSE words END
$$;
COMMENT ON FUNCTION public.receiptd_rename_in_text(text, text, text, text) IS 'Free text in which the pseudonym replaces a customer''s id. Only a whole word counts, and only an id that cannot be an ordinary word: a UUID.';

CREATE OR REPLACE FUNCTION public.receiptd_rename_in_details(
  details jsonb, customer_id text, pseudonym text, others boolean DEFAULT false) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- Values under these keys are receiptd's own words, names of people, or ids of other things. A client may choose such a
  -- word as the id of its device.
  words CONSTANT text[] := ARRAY['asked', 'destination', 'endpoint', 'failures', 'grant', 'key', 'kid', 'notification_uuid',
    'outcome', 'person', 'prefer', 'preferredBy', 'productID', 'renewsAt', 'requestIdentifier', 'requestedBy', 'role',
    'signs_from', 'since', 'storefronts', 'switched', 'tier', 'transactionID', 'trial', 'type', 'until'];
BEGIN
  RETURN CASE jsonb_typeof(details)
    WHEN 'object' THEN (
      SELECT coalesce(jsonb_object_agg(member.key, CASE
        WHEN member.key = ANY (words) THEN member.value
        -- refresh: the changes of a purchase, under its id.
        WHEN member.key ~ '^[0-9]{1,20}$' AND jsonb_typeof(member.value) = 'array' THEN (
          SELECT coalesce(jsonb_agg(public.receiptd_rename_in_change(change.value, customer_id, pseudonym, others)
            ORDER BY change.ordinality), '[]')
          FROM jsonb_array_elements(member.value) WITH ORDINALITY AS change)
        ELSE public.receiptd_rename_in_details(member.value, customer_id, pseudonym, others) END), '{}')
      FROM jsonb_each(details) AS member)
    WHEN 'array' THEN (
      SELECT coalesce(jsonb_agg(public.receiptd_rename_in_details(element.value, customer_id, pseudonym, others)
        ORDER BY element.ordinality), '[]')
      FROM jsonb_array_elements(details) WITH ORDINALITY AS element)
    WHEN 'string' THEN CASE WHEN (details = to_jsonb(customer_id)) <> others THEN to_jsonb(pseudonym) ELSE details END
    ELSE details END;
END
$$;
COMMENT ON FUNCTION public.receiptd_rename_in_details(jsonb, text, text, boolean) IS 'The details of an action in which the pseudonym replaces a customer''s id, or with "others" the id of every other customer: whole strings at any depth, and owners in the changes that a refresh found. Not under keys that have receiptd''s own words.';

CREATE OR REPLACE FUNCTION public.receiptd_rename_in_change(change jsonb, customer_id text, pseudonym text, others boolean) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owners text := substring(change #>> '{}' FROM '^owner: (.* -> .*)$');
  was_owner boolean := starts_with(owners, customer_id || ' -> ');
  is_owner boolean := right(owners, length(customer_id) + 4) = ' -> ' || customer_id;
BEGIN
  IF owners IS NULL OR jsonb_typeof(change) <> 'string' THEN
    RETURN change;
  END IF;
  -- 'none' stands for a purchase without an owner. An id may have an arrow too, so the others are not cut out of the text.
  IF others THEN
    RETURN to_jsonb('owner: '
      || CASE WHEN was_owner THEN customer_id WHEN starts_with(owners, 'none -> ') THEN 'none' ELSE pseudonym END || ' -> '
      || CASE WHEN is_owner THEN customer_id WHEN right(owners, 8) = ' -> none' THEN 'none' ELSE pseudonym END);
  END IF;
  IF was_owner AND customer_id <> 'none' THEN
    owners := pseudonym || substr(owners, length(customer_id) + 1);
  END IF;
  IF is_owner AND customer_id <> 'none' THEN
    owners := left(owners, -length(customer_id)) || pseudonym;
  END IF;
  RETURN to_jsonb('owner: ' || owners);
END
$$;
COMMENT ON FUNCTION public.receiptd_rename_in_change(jsonb, text, text, boolean) IS 'A change that a refresh found, such as "owner: <id> -> <id>", in which the pseudonym replaces a customer''s id, or with "others" the id of every other customer.';

-- A client may choose an id that begins with 'erased-'. Only those of erased devices have this form: see DeviceID.
CREATE OR REPLACE FUNCTION public.receiptd_has_account(app text, account text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (
      SELECT FROM public.trials WHERE bundle_id = app AND app_transaction_id = account
        AND device_id !~ '^erased-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
    OR EXISTS (
      SELECT FROM public.subscriptions
      WHERE app_transaction_id = account AND bundle_id = app AND coalesce(user_id::text, device_id) IS NOT NULL)
$$;

-- Sequential scans are disabled because clients can make the table large. That inflates cost estimates, so JIT is too.
CREATE OR REPLACE FUNCTION public.receiptd_erase_actions(
  customer_id text, kind text, bundle_ids text[], purchases text[], pseudonym text, author text, actor text,
  person bigint, explanation text, counts jsonb, instant timestamptz) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  uuid_form CONSTANT text := '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
  -- The id as a string of JSON, and the same without quotation marks.
  quoted CONSTANT text := to_jsonb(customer_id)::text;
  inner_text CONSTANT text := substr(quoted, 2, length(quoted) - 2);
  -- Whether free text may name the customer at all.
  is_distinctive CONSTANT boolean := public.receiptd_rename_in_text(customer_id, customer_id, kind, '') = '';
  other record;
  erased bigint;
  others bigint := 0;
  affected bigint;
BEGIN
  IF customer_id <> '' IS NOT TRUE OR kind IN ('user', 'device') IS NOT TRUE
    OR kind = 'user' AND customer_id !~ ('^' || uuid_form)
  THEN
    RAISE EXCEPTION 'the customer is a user with a UUID in lower case, or a device with an id' USING ERRCODE = '22023';
  END IF;
  IF pseudonym ~ ('^' || CASE kind WHEN 'device' THEN 'erased-' ELSE '' END || uuid_form) IS NOT TRUE
    OR EXISTS (SELECT FROM public.support_actions WHERE from_customer = pseudonym)
    OR EXISTS (SELECT FROM public.support_actions WHERE to_customer = pseudonym)
  THEN
    RAISE EXCEPTION 'a pseudonym is new and random' USING ERRCODE = '22023';
  END IF;
  -- The history of one customer must not become another's. The same erasure has written the pseudonym into grants, which it ended.
  IF EXISTS (
      SELECT FROM public.subscriptions s WHERE coalesce(s.user_id::text, s.device_id) = pseudonym
        AND (s.user_id IS NOT NULL OR s.device_id IS NOT NULL))
    OR EXISTS (
      SELECT FROM public.grants g WHERE coalesce(g.user_id::text, g.device_id) = pseudonym
        AND g.revoked_at IS NULL AND coalesce(g.ends_at > instant, true))
    OR kind = 'user' AND EXISTS (SELECT FROM public.seen_users u WHERE u.user_id = pseudonym::uuid)
  THEN
    RAISE EXCEPTION 'a pseudonym is the id of no customer' USING ERRCODE = '22023';
  END IF;
  IF EXISTS (SELECT FROM public.support_actions WHERE action = 'erase-customer' AND to_customer = customer_id) THEN
    RAISE EXCEPTION 'the customer is erased' USING ERRCODE = '22023';
  END IF;
  IF bundle_ids IS NULL OR array_position(bundle_ids, NULL) IS NOT NULL
    OR purchases IS NULL OR array_position(purchases, NULL) IS NOT NULL
    OR jsonb_typeof(counts) <> 'object'
  THEN
    RAISE EXCEPTION 'apps and purchases are lists without NULL, and the counts are an object' USING ERRCODE = '22023';
  END IF;
  IF EXISTS (
    SELECT FROM unnest(purchases) AS purchase (id) WHERE NOT EXISTS (
      SELECT FROM public.subscriptions s WHERE s.original_transaction_id = purchase.id AND s.erased_as = pseudonym))
  THEN
    RAISE EXCEPTION 'the purchases are those that the same erasure released' USING ERRCODE = '22023';
  END IF;

  -- The customer's own rows: of the erased apps or of none, or about a purchase and no customer.
  UPDATE public.support_actions a SET
    from_customer = CASE WHEN a.from_customer = customer_id THEN pseudonym ELSE a.from_customer END,
    to_customer = CASE WHEN a.to_customer = customer_id THEN pseudonym ELSE a.to_customer END,
    reason = '(erased)', details = NULL
  WHERE a.id = ANY (ARRAY(
    SELECT b.id FROM public.support_actions b
    WHERE b.from_customer = customer_id AND coalesce(b.customer_kind, kind) = kind
      AND (b.bundle_id IS NULL OR b.bundle_id = ANY (bundle_ids))
    UNION
    SELECT b.id FROM public.support_actions b
    WHERE b.to_customer = customer_id AND coalesce(b.customer_kind, kind) = kind
      AND (b.bundle_id IS NULL OR b.bundle_id = ANY (bundle_ids))
    UNION
    SELECT b.id FROM public.support_actions b
    WHERE b.original_transaction_id = ANY (purchases) AND b.from_customer IS NULL AND b.to_customer IS NULL));
  GET DIAGNOSTICS erased = ROW_COUNT;

  -- Rows of other customers, and of none, that name the customer keep all but the id.
  FOR other IN
    SELECT b.id, renamed.reason, renamed.details
    FROM public.support_actions b CROSS JOIN LATERAL (
      SELECT public.receiptd_rename_in_text(b.reason, customer_id, kind, pseudonym) AS reason,
        public.receiptd_rename_in_details(b.details, customer_id, pseudonym) AS details) AS renamed
    WHERE (b.actor <> 'receiptd' OR b.action = 'find') AND (b.bundle_id IS NULL OR b.bundle_id = ANY (bundle_ids))
      -- Cheap conditions come first: few rows have the text at all.
      AND CASE WHEN is_distinctive AND strpos(lower(b.reason), lower(customer_id)) > 0
          OR strpos(b.details::text, quoted) > 0
          OR strpos(b.details::text, '"owner: ') > 0 AND strpos(b.details::text, inner_text) > 0
        THEN (b.reason, b.details) IS DISTINCT FROM (renamed.reason, renamed.details) ELSE false END
  LOOP
    UPDATE public.support_actions a SET reason = other.reason, details = other.details WHERE a.id = other.id;
    others := others + 1;
  END LOOP;
  IF is_distinctive THEN
    UPDATE public.grants g SET reason = public.receiptd_rename_in_text(g.reason, customer_id, kind, pseudonym)
    WHERE g.bundle_id = ANY (bundle_ids)
      AND CASE WHEN strpos(lower(g.reason), lower(customer_id)) > 0
        THEN g.reason <> public.receiptd_rename_in_text(g.reason, customer_id, kind, pseudonym) ELSE false END;
    GET DIAGNOSTICS affected = ROW_COUNT;
    others := others + affected;
    UPDATE public.renewal_extensions e SET reason = public.receiptd_rename_in_text(e.reason, customer_id, kind, pseudonym)
    WHERE e.bundle_id = ANY (bundle_ids)
      AND CASE WHEN strpos(lower(e.reason), lower(customer_id)) > 0
        THEN e.reason <> public.receiptd_rename_in_text(e.reason, customer_id, kind, pseudonym) ELSE false END;
    GET DIAGNOSTICS affected = ROW_COUNT;
    others := others + affected;
  END IF;

  INSERT INTO public.support_actions (action, bundle_id, to_customer, customer_kind, by, actor, person_id, reason, details, at)
  SELECT 'erase-customer', app, pseudonym, kind, author, receiptd_erase_actions.actor, person, explanation,
    coalesce(counts, '{}') || jsonb_strip_nulls(jsonb_build_object(
      'support_actions', nullif(erased, 0),
      -- Those of tables that the server changed, too.
      'rowsOfOthers', nullif(others + coalesce((counts ->> 'rowsOfOthers')::bigint, 0), 0))), instant
  FROM unnest(CASE WHEN cardinality(bundle_ids) = 0 THEN ARRAY[NULL::text] ELSE bundle_ids END) AS app;
  -- The rows of the app's own tables that receiptd added and only receiptd has written since. All others are the app's. A row stays
  -- while the user is a customer of another app, which may write to the same table.
  IF kind = 'user' AND NOT EXISTS (SELECT FROM public.subscriptions s WHERE s.user_id = customer_id::uuid)
    AND NOT EXISTS (SELECT FROM public.grants g WHERE g.user_id = customer_id::uuid)
  THEN
    PERFORM public.receiptd_make_room('profiles', customer_id::uuid);
    PERFORM public.receiptd_make_room('user_preferences', customer_id::uuid);
  END IF;
  RETURN erased;
END
$$;
COMMENT ON FUNCTION public.receiptd_erase_actions(text, text, text[], text[], text, text, text, bigint, text, jsonb, timestamptz) IS 'Replaces an erased customer in support_actions, deletes the reasons and details of the customer''s own rows, replaces only the id in rows of other customers, deletes the rows that receiptd added to the app''s own tables, and records the erasure with the numbers of both. Returns the number of the customer''s own rows. Runs with the owner''s rights, for the role that serves.';

-- migrate: new transaction

-- An erasure deletes the rows that added_profile_rows names, so a fault in a server must not name a row of the app. A trigger
-- notes each row that receiptd_app inserts, and what receiptd_app itself inserts into added_profile_rows has no effect: it keeps
-- the right, because servers of the previous version and servers that connect as the owner note their rows themselves.

-- The tables may be live: see 20260413_roles.sql.
LOCK TABLE public.profiles, public.user_preferences IN ACCESS EXCLUSIVE MODE;

CREATE OR REPLACE FUNCTION public.receiptd_note_added_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  key CONSTANT text := CASE TG_TABLE_NAME WHEN 'profiles' THEN 'id' ELSE 'user_id' END;
  is_unchanged boolean;
BEGIN
  -- An AFTER INSERT trigger of the app whose name comes first may have written its own values into the row.
  EXECUTE format('SELECT to_jsonb(added) = to_jsonb($1) FROM %s AS added WHERE %I = ($1).%2$I', TG_RELID::regclass, key)
    INTO is_unchanged USING NEW;
  IF is_unchanged THEN
    INSERT INTO public.added_profile_rows (table_name, user_id) VALUES (TG_TABLE_NAME, (to_jsonb(NEW) ->> key)::uuid)
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.receiptd_note_added_row() IS 'Notes that receiptd added a row to one of the app''s own tables, unless a trigger of the app wrote into it.';

CREATE OR REPLACE FUNCTION public.receiptd_ignore_note() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.receiptd_ignore_note() IS 'Ignores what a server writes into added_profile_rows: receiptd_note_added_row() has noted the rows that it added.';

DROP TRIGGER IF EXISTS receiptd_ignore_note ON public.added_profile_rows;
CREATE TRIGGER receiptd_ignore_note BEFORE INSERT ON public.added_profile_rows
  FOR EACH ROW WHEN (current_user = 'receiptd_app') EXECUTE FUNCTION public.receiptd_ignore_note();

-- A row that a trigger of the app inserts, because receiptd added one to another table, is the app's.
DROP TRIGGER IF EXISTS receiptd_note_added_insert ON public.profiles;
CREATE TRIGGER receiptd_note_added_insert AFTER INSERT ON public.profiles
  FOR EACH ROW WHEN (current_user = 'receiptd_app' AND pg_trigger_depth() = 0)
  EXECUTE FUNCTION public.receiptd_note_added_row();
DROP TRIGGER IF EXISTS receiptd_note_added_insert ON public.user_preferences;
CREATE TRIGGER receiptd_note_added_insert AFTER INSERT ON public.user_preferences
  FOR EACH ROW WHEN (current_user = 'receiptd_app' AND pg_trigger_depth() = 0)
  EXECUTE FUNCTION public.receiptd_note_added_row();
