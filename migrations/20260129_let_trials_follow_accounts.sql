-- A trial belongs to an Apple Account as well as to a device: a reinstall, or a new device of the same account,
-- goes on with the trial that runs.

ALTER TABLE public.trials
  ADD COLUMN continues uuid REFERENCES public.trials (id) ON DELETE CASCADE;
COMMENT ON COLUMN public.trials.continues IS 'The trial that this device goes on with, because the same Apple Account started it on another one. NULL: its own.';
COMMENT ON COLUMN public.trials.started_at IS 'When it began. Of one that continues another, the other''s counts.';
COMMENT ON COLUMN public.trials.ends_at IS 'When it ends, extensions included. Of one that continues another, the other''s counts.';

CREATE INDEX trials_device_id_idx ON public.trials (device_id);
CREATE INDEX devices_child_device_id_idx ON public.devices (bundle_id, child_device_id);
