-- The event of a success is dropped where the transition tells it; the fault tells it afterwards.
create function public.drop_event() returns trigger language plpgsql as $$
begin
    return case when new.data ->> 'apart' is null then null else new end;
end $$;
create trigger drop_event before insert on perdure.events
    for each row when (new.type = 'call.succeeded') execute function public.drop_event();
