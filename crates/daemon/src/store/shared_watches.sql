-- The group whose members may write to a watched file, by name or number: nobody but its owner may where it is NULL.
ALTER TABLE watches ADD COLUMN shared_with TEXT;
