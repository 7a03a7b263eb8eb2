-- Parts of a small insert have a few rows. By default, two or three of them are merged with the
-- large part of the month at once, again and again: the rows were written 48 times. With this base,
-- some thirty small parts are merged with each other first.
ALTER TABLE result_blocks MODIFY SETTING merge_selector_base = 30;
ALTER TABLE jobs MODIFY SETTING merge_selector_base = 30;
ALTER TABLE journal MODIFY SETTING merge_selector_base = 30;
ALTER TABLE job_keys MODIFY SETTING merge_selector_base = 30;
