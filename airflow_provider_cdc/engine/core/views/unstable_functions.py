"""The functions of Spark 4.2 that the query of a view may not call.

These are all functions that are not plain functions of the values of one row.
"""

from __future__ import annotations


def keyword_set(text: str) -> frozenset[str]:
    """The words of ``text``."""
    return frozenset(text.split())


_AGGREGATES = keyword_set(
    """any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bloom_filter_agg bool_and bool_or collect_list collect_set collect_top_k corr
    count count_if count_min_sketch covar_pop covar_samp every first first_value grouping
    grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min min_by
    mode pandas_covar pandas_kurt pandas_mode pandas_product pandas_skew pandas_stddev pandas_var
    percentile percentile_approx percentile_cont percentile_disc product regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg
    skewness some std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg
    theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer
    tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance vector_avg
    vector_sum"""
)
_WINDOWED = keyword_set(
    """cume_dist dense_rank ewm lag lead nth_value ntile null_index percent_rank rank row_number
    session_window window window_time"""
)
_GENERATORS = keyword_set(
    """collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer
    range sql_keywords stack variant_explode variant_explode_outer"""
)
_CHANGING = keyword_set(
    """aes_encrypt curdate current_catalog current_database current_date current_path current_schema
    current_time current_timestamp current_timezone current_user distributed_id
    distributed_sequence_id getdate input_file_block_length input_file_block_start input_file_name
    java_method localtimestamp monotonically_increasing_id now rand randn random randstr reflect
    session_user shuffle spark_partition_id try_reflect uniform user uuid version"""
)
REFUSED_FUNCTIONS = {
    **dict.fromkeys(_AGGREGATES, "the aggregate"),
    **dict.fromkeys(_WINDOWED, "the window function"),
    **dict.fromkeys(_GENERATORS, "the generator"),
    **dict.fromkeys(_CHANGING, "the non-deterministic function"),
}
WITHOUT_PARENTHESES = keyword_set(
    """current_catalog current_database current_date current_path current_schema current_time
    current_timestamp current_user grouping__id localtimestamp session_user user"""
)
