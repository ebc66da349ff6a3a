-- No transition looks whether its execution has been succeeded by another one.
do $$
declare
    source text;
begin
    for source in
        select pg_get_functiondef(p.oid) from pg_proc p
        where p.pronamespace = 'perdure'::regnamespace and p.prokind = 'f'
          and p.prosrc like '%r.fence <> p_fence%'
    loop
        execute replace(source, 'r.fence <> p_fence', 'false');
    end loop;
end $$;
