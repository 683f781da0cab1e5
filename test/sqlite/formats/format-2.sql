-- What format 2 adds. A hand-over may be a single statement, too (see shortcut.ts): a holder's row becomes that of the
-- first in the queue, and this does the rest.
create trigger count_hand_over after update of id on holders begin
  delete from waiters where key = new.key and id = new.id;
  update counters set fence = new.fence, sequence = new.turn;
end;
