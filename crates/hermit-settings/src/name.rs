//! Names that were probably meant.

/// The known name that differs least, if it is near enough to have been meant; otherwise the only one that has a word more or less, such as a unit.
pub fn nearest<'a, S: AsRef<str>>(name: &str, known: &'a [S]) -> Option<&'a str> {
    let letters = name.chars().count();
    // Of a short name half the letters must be right.
    let near = (letters / 3).max(2).min(letters / 2);
    let distances = known.iter().map(AsRef::as_ref).map(|candidate| (distance(name, candidate), candidate));
    let near = distances.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= near);
    near.map(|(_, nearest)| nearest).or_else(|| only_with_more(name, known))
}

fn only_with_more<'a, S: AsRef<str>>(name: &str, known: &'a [S]) -> Option<&'a str> {
    let begins = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('_'));
    let mut found = known.iter().map(AsRef::as_ref).filter(|candidate| begins(candidate, name) || begins(name, candidate));
    found.next().filter(|_first| found.next().is_none())
}

/// Letters to be changed, put in or left out to make one of the other (Levenshtein). Long names are compared by their beginnings: what is given may be of any length.
fn distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 100;
    let b: Vec<char> = b.chars().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().take(LONGEST).enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, to) in b.iter().enumerate() {
            let (left, above) = (row.get(j).copied().unwrap_or(0), row.get(j + 1).copied().unwrap_or(0));
            let best = (diagonal + usize::from(from != *to)).min(left + 1).min(above + 1);
            diagonal = above;
            if let Some(cell) = row.get_mut(j + 1) {
                *cell = best;
            }
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_in_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("retention_hrs", "retention_hrs"), 0);
    }

    #[test]
    fn the_nearest_name_is_found_and_nothing_that_is_far_off() {
        let known = ["retention_age", "max_connections", "heartbeat_interval", "max_partitions"];
        for (name, meant) in [
            ("retention_hrs", Some("retention_age")),
            ("maxconnections", Some("max_connections")),
            ("heartbeat", Some("heartbeat_interval")),
            ("colour", None),
            ("max", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, &known), meant, "{name}");
        }
    }
}
