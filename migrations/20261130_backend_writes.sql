-- A premium row of the app's own tables does not say who wrote it. After the first adoption of a table, `receiptd adopt` gives an award
-- only for a row that the app's own backend made premium. Triggers note these writes here. A row that receiptd made premium has no note
-- and gets no award, also after its customer was erased.
CREATE TABLE IF NOT EXISTS receiptd.backend_writes (
  table_name text NOT NULL,
  user_id uuid NOT NULL,
  last_at timestamptz NOT NULL,
  PRIMARY KEY (table_name, user_id)
);
COMMENT ON TABLE receiptd.backend_writes IS 'Which rows of the app''s own tables the app''s backend made or left premium: a role that is no client, and not receiptd''s server.';
COMMENT ON COLUMN receiptd.backend_writes.table_name IS 'profiles or user_preferences.';
COMMENT ON COLUMN receiptd.backend_writes.user_id IS 'The user of the row.';
COMMENT ON COLUMN receiptd.backend_writes.last_at IS 'When it last wrote premium values that differ.';

-- The note must not fail the write: without one the row gets no award.
CREATE OR REPLACE FUNCTION receiptd.receiptd_note_backend_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO receiptd.backend_writes AS known (table_name, user_id, last_at)
  VALUES (TG_TABLE_NAME, (to_jsonb(NEW) ->> CASE TG_TABLE_NAME WHEN 'profiles' THEN 'id' ELSE 'user_id' END)::uuid,
    clock_timestamp())
  ON CONFLICT (table_name, user_id) DO UPDATE SET last_at = greatest(known.last_at, excluded.last_at);
  RETURN NULL;
EXCEPTION WHEN OTHERS THEN
  RAISE LOG 'receiptd: a backend''s write could not be noted: % (%)', SQLERRM, SQLSTATE;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION receiptd.receiptd_note_backend_write() IS 'Notes in backend_writes that the app''s backend wrote a premium row.';

-- The note, and a claim of the first adoption that is still open, are of the premium that the row has. They end with it: when it ends, or
-- when a client or the server changes `is_premium`: a row of user_preferences does not say what made it premium.
CREATE OR REPLACE FUNCTION receiptd.receiptd_forget_backend_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  forgotten CONSTANT text := to_jsonb(OLD) ->> CASE TG_TABLE_NAME WHEN 'profiles' THEN 'id' ELSE 'user_id' END;
BEGIN
  DELETE FROM receiptd.backend_writes b WHERE b.table_name = TG_TABLE_NAME AND b.user_id = forgotten::uuid;
  DELETE FROM receiptd.adoptions a
  WHERE a.customer = forgotten AND a.original_transaction_id = '' AND a.outcome = 'failed'
    AND a.source = TG_TABLE_NAME;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION receiptd.receiptd_forget_backend_write() IS 'Forgets that the app''s backend wrote a row, once the premium of the row is another''s.';

-- Has the server write the status of a user to a table within seconds. It never fails, because that would fail the client's
-- statement. A server without an app of the table leaves it to others.
CREATE OR REPLACE FUNCTION receiptd.receiptd_queue_status(customer uuid, relation text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO receiptd.outbox (destination, key, payload)
  SELECT 'profiles', customer::text, jsonb_build_object('tables', jsonb_build_array(relation))
  WHERE NOT EXISTS (
    SELECT FROM receiptd.outbox
    WHERE destination = 'profiles' AND key = customer::text AND done_at IS NULL AND dead_at IS NULL
      AND payload @> jsonb_build_object('tables', jsonb_build_array(relation)));
EXCEPTION WHEN OTHERS THEN
  RAISE LOG 'receiptd: the status of a user could not be queued: % (%)', SQLERRM, SQLSTATE;
END
$$;
COMMENT ON FUNCTION receiptd.receiptd_queue_status(uuid, text) IS 'Queues the premium status of a user, which the server then writes to one of the app''s own tables.';

-- The guards call it, and the status of a user counts by the purchases of all apps that write or wrote to the table: a server that has
-- not read the latest configuration must not make an app forgotten.
DO $$
DECLARE
  guard regprocedure;
  changed text;
BEGIN
  FOREACH guard IN ARRAY ARRAY['receiptd.receiptd_guard_profiles()', 'receiptd.receiptd_guard_user_preferences()']::regprocedure[] LOOP
    changed := regexp_replace(pg_get_functiondef(guard), 'receiptd_queue_status\(NEW\.(id|user_id)\)',
      'receiptd_queue_status(NEW.\1, TG_TABLE_NAME::text)', 'g');
    IF position('TG_TABLE_NAME::text)' IN changed) = 0 THEN
      RAISE EXCEPTION '% does not queue a status', guard;
    END IF;
    EXECUTE changed;
  END LOOP;
  changed := replace(pg_get_functiondef('receiptd.receiptd_known_until(text, uuid, text)'::regprocedure),
    'SELECT unnest(bundle_ids) AS bundle_id', 'SELECT unnest(bundle_ids || former_bundle_ids) AS bundle_id');
  IF position('former_bundle_ids' IN changed) = 0 THEN
    RAISE EXCEPTION 'receiptd_known_until does not read the apps of the table';
  END IF;
  EXECUTE changed;
END
$$;
DROP FUNCTION IF EXISTS receiptd.receiptd_queue_status(uuid);

REVOKE ALL ON FUNCTION receiptd.receiptd_queue_status(uuid, text), receiptd.receiptd_note_backend_write(),
  receiptd.receiptd_forget_backend_write() FROM PUBLIC;

-- Destinations are told of free access in many transactions after the switch.
ALTER TABLE receiptd.free_access ADD COLUMN IF NOT EXISTS told_at timestamptz, ADD COLUMN IF NOT EXISTS end_told_at timestamptz;
UPDATE receiptd.free_access SET told_at = starts_at, end_told_at = ends_at WHERE told_at IS NULL;
COMMENT ON COLUMN receiptd.free_access.told_at IS 'When CloudKit and webhooks had a row for each customer about its beginning.';
COMMENT ON COLUMN receiptd.free_access.end_told_at IS 'When they had one about its end.';

-- migrate: new transaction
LOCK TABLE public.profiles, public.user_preferences IN ACCESS EXCLUSIVE MODE;

DO $notes$
DECLARE
  relation text;
  key text;
  claimed text;
  claims text;
  is_backend text;
  updating text;
  entry record;
BEGIN
  FOR relation, key, claimed, claims IN VALUES
    ('profiles', 'id', '(%1$s.id, %1$s.premium_expires_at, %1$s.premium_product_id, %1$s.premium_original_transaction_id)',
      'NOT (NEW.premium_expires_at IS NULL AND NEW.premium_product_id IS NULL AND NEW.premium_original_transaction_id IS NULL)'),
    ('user_preferences', 'user_id', '(%1$s.user_id, %1$s.is_premium)', 'NEW.is_premium')
  LOOP
    -- As in 20261123_client_writers.sql: where a foreign key cascades to the key, the role of the statement counts.
    updating := format($sql$(CASE WHEN pg_trigger_depth() > 0 AND OLD.%1$I IS DISTINCT FROM NEW.%1$I
      THEN coalesce(nullif(current_setting('role'), 'none')::name, session_user) ELSE current_user END)$sql$, key);
    is_backend := format($sql$current_setting('receiptd.serves', true) IS DISTINCT FROM 'on'
      AND @role@ NOT IN ('anon', 'authenticated') AND public.receiptd_writes_premium('public.%I'::regclass, @role@::text)$sql$, relation);
    FOR entry IN VALUES
      ('receiptd_note_backend_insert', 'INSERT', format('%s AND %s', claims, replace(is_backend, '@role@', 'current_user'))),
      ('receiptd_note_backend_update', 'UPDATE', format('%s AND %s IS DISTINCT FROM %s AND %s', claims, format(claimed, 'OLD'),
        format(claimed, 'NEW'), replace(is_backend, '@role@', updating))),
      ('receiptd_forget_backend_update', 'UPDATE', CASE relation
        WHEN 'profiles' THEN format('NOT (%s) AND (%s)', claims, replace(claims, 'NEW.', 'OLD.'))
        ELSE format('%s IS DISTINCT FROM %s AND NOT (NEW.is_premium AND %s)', format(claimed, 'OLD'), format(claimed, 'NEW'),
          replace(is_backend, '@role@', updating)) END)
    LOOP
      EXECUTE format('DROP TRIGGER IF EXISTS %I ON public.%I', entry.column1, relation);
      EXECUTE format('CREATE TRIGGER %I AFTER %s ON public.%I FOR EACH ROW WHEN (%s) EXECUTE FUNCTION '
        'receiptd.%I()', entry.column1, entry.column2, relation, entry.column3,
        CASE WHEN entry.column1 LIKE '%note%' THEN 'receiptd_note_backend_write' ELSE 'receiptd_forget_backend_write' END);
    END LOOP;
  END LOOP;
END
$notes$;

COMMENT ON COLUMN receiptd.outbox.payload IS 'Empty: a delivery reads the customer''s state, the event or the notification when it sends it. {"erased": true}: it tells that the customer was erased, and the row is deleted after the delivery. With "returned": true it then tells the state, because the customer came back. {"tables": ["profiles"], "decided": ["profiles"]} (profiles): the status is for these tables, and in the decided ones it replaces also a claim from before receiptd, because the user had a purchase or was erased.';

-- receiptd_set_guards() makes them too: see 20261126_schema.sql.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $$
DECLARE
  statements CONSTANT text := (
    SELECT string_agg(format(E'  DROP TRIGGER IF EXISTS %I ON %s;\n  %s;', tgname, tgrelid::regclass, pg_get_triggerdef(oid)), E'\n'
      ORDER BY tgrelid::regclass::text, tgname)
    FROM pg_trigger
    WHERE tgrelid IN ('public.profiles'::regclass, 'public.user_preferences'::regclass) AND tgname LIKE 'receiptd\_%');
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION public.receiptd_set_guards() RETURNS void LANGUAGE plpgsql '
    'SET search_path = pg_catalog, pg_temp AS %L', E'BEGIN\n' || statements || E'\nEND');
END
$$;

DO $$
DECLARE
  rights CONSTANT text := pg_get_functiondef('public.receiptd_rights()'::regprocedure);
BEGIN
  IF position('backend_writes' IN rights) = 0 THEN
    EXECUTE replace(rights, '(''devices'', ', '(''backend_writes'', ''SELECT, DELETE'', ''*''),
    (''devices'', ');
  END IF;
END
$$;

-- migrate: new transaction
-- Roles of servers, and service_role, have on it what they have on client_writes.
DO $$
DECLARE
  entry record;
BEGIN
  FOR entry IN
    SELECT granted.grantee::regrole AS role, granted.privilege_type AS privilege
    FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted
    WHERE c.oid = 'receiptd.client_writes'::regclass AND granted.grantee NOT IN (0, c.relowner)
      AND granted.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
  LOOP
    EXECUTE format('GRANT %s ON receiptd.backend_writes TO %s', entry.privilege, entry.role);
  END LOOP;
END
$$;
SELECT public.receiptd_set_rights('backend_writes');
SELECT public.receiptd_set_common_rights();

-- Servers of the build before the schema `receiptd` are ready if they find every relation of receiptd_rights() in `public`.
DO $$
DECLARE
  role regrole;
BEGIN
  IF to_regclass('public.backend_writes') IS NOT NULL OR NOT EXISTS (
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'outbox' AND relkind = 'v')
  THEN
    RETURN;
  END IF;
  EXECUTE 'CREATE VIEW public.backend_writes WITH (security_invoker = true) AS SELECT * FROM receiptd.backend_writes';
  EXECUTE format('ALTER VIEW public.backend_writes OWNER TO %s',
    (SELECT relowner::regrole FROM pg_class WHERE oid = 'receiptd.backend_writes'::regclass));
  COMMENT ON VIEW public.backend_writes IS 'The former name of receiptd.backend_writes, for servers of the build before. receiptd_drop_former_names() drops it.';
  COMMENT ON COLUMN public.backend_writes.table_name IS 'profiles or user_preferences.';
  COMMENT ON COLUMN public.backend_writes.user_id IS 'The user of the row.';
  COMMENT ON COLUMN public.backend_writes.last_at IS 'When it last wrote premium values that differ.';
  REVOKE ALL ON public.backend_writes FROM PUBLIC;
  FOR role IN
    SELECT DISTINCT granted.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted
    WHERE c.oid = 'public.backend_writes'::regclass AND granted.grantee NOT IN (0, c.relowner)
  LOOP
    EXECUTE format('REVOKE ALL ON public.backend_writes FROM %s', role);
  END LOOP;
END
$$;
